package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"leash/internal/redistest"
)

const checkTimeout = time.Minute // of one lock's history

// check is an error for each lock whose history fits no order. What a forgotten lock explains is excepted and counted.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	excepted := 0
	for _, key := range slices.Sorted(maps.Keys(h.byKey)) {
		ops := h.byKey[key]
		result := porcupine.CheckOperationsTimeout(model, ops, checkTimeout)
		if result == porcupine.Illegal {
			excepted++
			ops = excepting(key, ops, h.forgets)
			result = porcupine.CheckOperationsTimeout(model, ops, checkTimeout)
		}
		switch result {
		case porcupine.Illegal:
			errs = append(errs, fmt.Errorf("%s: two holders, or a token that did not rise:\n%s", key, clash(ops)))
		case porcupine.Unknown:
			errs = append(errs, fmt.Errorf("%s: %d operations could not be checked in %v", key, len(ops), checkTimeout))
		}
	}
	if len(errs) > 0 {
		fmt.Printf("forgotten in %v\n", h.forgets)
	}
	fmt.Printf("%d locks checked, %d of them excepted for what was forgotten\n", len(h.byKey), excepted)
	return errors.Join(errs...)
}

// clash names the operation with which a history cannot be explained any more, and what was known of the lock then.
func clash(ops []porcupine.Operation) string {
	byReturn := slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	first := sort.Search(len(byReturn), func(i int) bool {
		return porcupine.CheckOperationsTimeout(model, until(ops, byReturn[i].Return), checkTimeout) == porcupine.Illegal
	})
	if first == len(byReturn) {
		return "  no part of it is wrong by itself"
	}
	culprit := byReturn[first]
	var b strings.Builder
	fmt.Fprintf(&b, "  until %v, with\n    %s\n  beside\n", time.Duration(culprit.Return), line(culprit))
	for _, o := range byReturn {
		if o.Return >= culprit.Call-int64(2*ttl) && o.Call <= culprit.Return {
			fmt.Fprintf(&b, "    %s\n", line(o))
		}
	}
	return b.String()
}

// until is what had certainly happened at a time, and the ends that may have.
func until(ops []porcupine.Operation, at int64) (out []porcupine.Operation) {
	granted := make(map[int]bool)
	for _, o := range ops {
		if in := o.Input.(op); in.action == grant && o.Return <= at {
			granted[in.hold] = true
		}
	}
	for _, o := range ops {
		if in := o.Input.(op); o.Return <= at || in.action == end && o.Call <= at && granted[in.hold] {
			out = append(out, o)
		}
	}
	return out
}

func line(o porcupine.Operation) string {
	done := "?"
	if o.Return != never {
		done = time.Duration(o.Return).String()
	}
	return fmt.Sprintf("%v to %s: %v", time.Duration(o.Call), done, o.Input)
}

// verdict is an error when something was answered that no fault explains.
func (t *tally) verdict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d wrong answers:\n  %s", len(t.wrong), strings.Join(t.wrong[:min(20, len(t.wrong))], "\n  "))
}

// prepare makes the semaphores that are not there.
func (b *bed) prepare() error {
	c, err := redistest.Dial(b.leashes[0].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range b.keys {
		if !strings.HasPrefix(key, "sem:") {
			continue
		}
		if reply, err := c.Do("SEM.INIT", key, strconv.Itoa(permits)); err != nil || reply[0] != ':' {
			return fmt.Errorf("SEM.INIT: %q %w", reply, err)
		}
	}
	return nil
}

// addrs are where clients connect to.
func (b *bed) addrs() (addrs []string) {
	for _, f := range b.fronts {
		addrs = append(addrs, f.Addr())
	}
	return addrs
}

// settled is an error when, everything mended and every client gone, a lock cannot be had within the TTL of whoever had it
// last, or a Leash keeps anything of its clients'.
func (b *bed) settled() error {
	for _, l := range b.leashes {
		if l.Crashed() {
			return fmt.Errorf("a leash has crashed: %s", l.LogTail())
		}
	}
	if err := b.prepare(); err != nil {
		return err
	}
	c, err := redistest.Dial(b.leashes[0].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range b.keys {
		args := []string{"LOCK.ACQUIRE", key, "BLOCK", strconv.FormatInt((3 * ttl).Milliseconds(), 10)}
		switch {
		case strings.HasPrefix(key, "sem:"):
			args[0] = "SEM.ACQUIRE"
		case strings.HasPrefix(key, "rw:"):
			args = append(args, "WRITE")
		case strings.HasPrefix(key, "fair:"):
			args = append(args, "FAIR")
		}
		if reply, err := c.Do(args...); err != nil || reply[0] != ':' && reply[0] != '$' || strings.HasPrefix(reply, "$-1") {
			return fmt.Errorf("%s cannot be had any more: %q %w", key, reply, err)
		}
	}
	if err := c.Close(); err != nil {
		return err
	}
	var errs []error
	for _, l := range b.leashes {
		errs = append(errs, l.AwaitInfo(20*time.Second, "sessions:1", "pinned_connections:0", "holds:0", "waiters:0", "panics:0"))
	}
	return errors.Join(errs...)
}

// sabotage ends holds as a script without an owner's check would.
func (n *nemesis) sabotage(ctx context.Context) {
	for ctx.Err() == nil {
		key := pick(n.rnd, n.bed.keys)
		for _, node := range n.bed.cluster.Masters() {
			_ = node.Client().Del(ctx, key).Err() // MOVED at all but one
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// report prints what was broken and what the workers met.
func report(out io.Writer, n *nemesis, t *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for title, counts := range map[string]map[string]int{"faults": n.struck, "clients": t.count} {
		fmt.Fprintf(out, "%s\n", title)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(out, "  %7d %s\n", counts[name], name)
		}
	}
}
