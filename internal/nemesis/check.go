package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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
		result, info := porcupine.CheckOperationsVerbose(model, ops, checkTimeout)
		if result == porcupine.Illegal {
			excepted++
			result, info = porcupine.CheckOperationsVerbose(model, excepting(key, ops, h.forgets), checkTimeout)
		}
		switch result {
		case porcupine.Illegal:
			errs = append(errs, fmt.Errorf("%s: two holders, or a token that did not rise:\n%s", key, clash(ops, info)))
		case porcupine.Unknown:
			errs = append(errs, fmt.Errorf("%s: %d operations could not be checked in %v", key, len(ops), checkTimeout))
		}
	}
	fmt.Printf("%d locks checked, %d of them excepted for what was forgotten\n", len(h.byKey), excepted)
	return errors.Join(errs...)
}

// clash is what lies around the place up to which a history can be explained.
func clash(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	longest := 0
	for _, partition := range info.PartialLinearizations() {
		for _, p := range partition {
			longest = max(longest, len(p))
		}
	}
	sorted := slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	fmt.Fprintf(&b, "  the first %d of %d operations can be explained\n", longest, len(ops))
	for _, o := range sorted[max(0, longest-6):min(len(sorted), longest+6)] {
		done := "?"
		if o.Return != never {
			done = time.Duration(o.Return).String()
		}
		fmt.Fprintf(&b, "  %v to %s: %v\n", time.Duration(o.Call), done, o.Input)
	}
	return b.String()
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

// prepare makes the semaphores.
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
		if reply, err := c.Do("SEM.INIT", key, strconv.Itoa(permits)); err != nil || reply != ":1\r\n" {
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
