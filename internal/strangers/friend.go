package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"leash/internal/redistest"
)

// friends are the clients that must not notice anything. They use keys of the node that nobody
// corrupts.
type friends struct {
	bed     *testbed
	replies atomic.Int64 // that were checked
	grants  atomic.Int64 // of the lock that two of them want
	inside  atomic.Int64 // that have this lock now
	last    atomic.Int64 // its last token
}

// work connects the friends and returns what each does until ctx is done. An error is what it has
// noticed. They connect before anything is corrupted, because any node may check a password.
func (f *friends) work() (all []func(context.Context) error, err error) {
	for _, friend := range []struct {
		secure bool
		step   func(*redistest.Client) error
	}{
		{false, f.commands("plain")}, {true, f.commands("tls")}, {false, f.hold()}, {false, f.contend}, {true, f.contend},
	} {
		c, err := f.bed.friend(friend.secure)
		if err != nil {
			return nil, err
		}
		c.Timeout = time.Minute // a machine may be slow, and that is no fault
		all = append(all, func(ctx context.Context) error { return each(ctx, c, friend.step) })
	}
	return all, nil
}

// each calls step with one connection until ctx is done.
func each(ctx context.Context, c *redistest.Client, step func(*redistest.Client) error) error {
	defer c.Close()
	for ctx.Err() == nil {
		if err := step(c); err != nil {
			return fmt.Errorf("a client was disturbed: %w", err)
		}
	}
	return nil
}

// want sends a command and checks its reply.
func (f *friends) want(c *redistest.Client, want string, args ...string) error {
	got, err := c.Do(args...)
	if err != nil || got != want {
		return errors.Join(err, fmt.Errorf("%q: got %.200q, want %q", args, got, want))
	}
	f.replies.Add(1)
	return nil
}

// commands returns a step of simple commands, a pipeline and a transaction.
func (f *friends) commands(name string) func(*redistest.Client) error {
	key, n := f.bed.keyAt(0, name), 0
	return func(c *redistest.Client) error {
		n++
		value := strings.Repeat(strconv.Itoa(n), 1+n%50)
		bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
		if err := errors.Join(f.want(c, "+OK\r\n", "SET", key, value), f.want(c, bulk, "GET", key)); err != nil {
			return err
		}
		if err := c.Send(strings.Repeat(redistest.Command("GET", key), 20)); err != nil {
			return err
		}
		for range 20 {
			if got, err := c.Read(); err != nil || got != bulk {
				return errors.Join(err, fmt.Errorf("GET in a pipeline: got %.200q", got))
			}
			f.replies.Add(1)
		}
		time.Sleep(5 * time.Millisecond)
		// without WATCH, MULTI may go to a node whose replies are corrupt
		return errors.Join(f.want(c, "+OK\r\n", "WATCH", key), f.want(c, "+OK\r\n", "MULTI"), f.want(c, "+QUEUED\r\n", "GET", key),
			f.want(c, "*1\r\n"+bulk, "EXEC"))
	}
}

// hold returns a step that has one lock all the time.
func (f *friends) hold() func(*redistest.Client) error {
	key, token := f.bed.keyAt(0, "held"), ""
	return func(c *redistest.Client) error {
		if token == "" {
			got, err := c.Do("LOCK.ACQUIRE", key)
			if err != nil || got[0] != ':' {
				return errors.Join(err, fmt.Errorf("LOCK.ACQUIRE: got %q", got))
			}
			token = strings.Trim(got, ":\r\n")
		}
		time.Sleep(20 * time.Millisecond)
		return f.want(c, ":1\r\n", "LOCK.CHECK", key, "TOKEN", token)
	}
}

// contend takes a lock for which another friend waits.
func (f *friends) contend(c *redistest.Client) error {
	key := f.bed.keyAt(0, "wanted")
	got, err := c.Do("LOCK.ACQUIRE", key, "BLOCK", "50000")
	token, bad := strconv.ParseInt(strings.Trim(got, ":\r\n"), 10, 64)
	if err != nil || bad != nil {
		return errors.Join(err, fmt.Errorf("LOCK.ACQUIRE with BLOCK: got %q", got))
	}
	if n := f.inside.Add(1); n != 1 {
		return fmt.Errorf("%d clients hold a lock", n)
	}
	if last := f.last.Swap(token); token <= last {
		return fmt.Errorf("token %d after %d", token, last)
	}
	time.Sleep(2 * time.Millisecond)
	f.inside.Add(-1)
	f.grants.Add(1)
	return f.want(c, ":1\r\n", "LOCK.RELEASE", key)
}
