package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// corruptShare is the share of replies that two nodes' proxies corrupt.
const corruptShare = 0.02

// runMutations is a run with mutated streams. It prints its figures to out. The error says what
// went wrong.
func runMutations(opt options, out io.Writer) (err error) {
	fmt.Fprintf(out, "seed %d\n", opt.seed)
	bed, err := startTestbed(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	f, s := &friends{bed: bed}, &strangers{bed: bed}
	work, err := f.work()
	if err != nil {
		return err
	}
	// No lies: any node may answer whether a user may run a command that has no key.
	for _, n := range bed.cluster.Nodes[1:] {
		n.Proxy.Corrupt(corruptShare, false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), opt.length)
	defer cancel()
	began := time.Now()
	for i := range opt.strangers {
		r := random(opt.seed, i)
		work = append(work, func(ctx context.Context) error { return s.work(ctx, r) })
	}
	err = together(ctx, cancel, work)
	corrupted := int64(0)
	for _, n := range bed.cluster.Nodes[1:] {
		n.Proxy.Corrupt(0, false)
		corrupted += n.Proxy.Stats().Corrupted
	}
	fmt.Fprintf(out, "%v: %d connections of strangers and %d refused; %d never finished a handshake, %d reset, %d half closed\n",
		time.Since(began).Round(time.Second), s.connections.Load(), s.refused.Load(), s.handshakes.Load(), s.reset.Load(), s.halved.Load())
	fmt.Fprintf(out, "%.1f MB sent by strangers, %.1f MB answered; %d replies of Redis corrupted\n",
		float64(s.sent.Load())/1e6, float64(s.read.Load())/1e6, corrupted)
	fmt.Fprintf(out, "beside them: %d replies checked, %d grants of a lock that two clients want\n", f.replies.Load(), f.grants.Load())
	if err = errors.Join(err, bed.unharmed()); err != nil {
		fmt.Fprintf(out, "what Leash logged last about the good node:\n%s", bed.logged(bed.cluster.Nodes[0].Announced()))
	}
	return err
}

// logged returns the last lines of Leash's log that have a text.
func (b *testbed) logged(text string) (tail string) {
	all, err := os.ReadFile(b.leash.Log)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

// together runs all work until ctx is done or one fails.
func together(ctx context.Context, cancel context.CancelFunc, work []func(context.Context) error) (err error) {
	var running sync.WaitGroup
	failed := make(chan error, len(work))
	for _, f := range work {
		running.Go(func() {
			if err := f(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	running.Wait()
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	return err
}

// unharmed checks that Leash has not panicked, and that nothing of the strangers stays.
func (b *testbed) unharmed() error {
	if b.leash.Crashed() {
		return errors.New("leash has ended: " + b.leash.LogTail())
	}
	line, err := b.leash.Said("panic recovered", "DATA RACE", "fatal error")
	if line != "" {
		err = errors.Join(err, errors.New("leash has logged: "+line))
	}
	return errors.Join(err, b.awaitNobody())
}

// awaitNobody waits until Leash serves no client but this one.
func (b *testbed) awaitNobody() error {
	c, err := b.friend(false)
	if err != nil {
		return err
	}
	defer c.Close()
	missing := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		info, err := c.Do("INFO")
		if err != nil {
			return err
		}
		missing = ""
		for _, line := range []string{"connected_clients:1", "leash_holds:0", "leash_waiters:0", "leash_panics:0"} {
			if !strings.Contains(info, "\r\n"+line+"\r\n") {
				missing += " " + line
			}
		}
		if missing == "" {
			return nil
		}
	}
	return errors.New("a minute after the last stranger, INFO has not:" + missing)
}
