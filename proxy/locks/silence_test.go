package locks_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR28IdleStoppedClient checks that the next client gets the lock of a stopped client after
// IDLE, although the kernel keeps the connection alive (R28).
func TestR28IdleStoppedClient(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		cli, reply := redisCLI(t, l.Addr, "LOCK.ACQUIRE k IDLE 1500 BLOCK 0")
		proxytest.Number(t, reply)
		other := l.Dial(t)
		other.Timeout = time.Minute
		began := time.Now()
		if err := cli.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		proxytest.Token(t, other, "k", "BLOCK", "0")
		took := time.Since(began)
		t.Logf("another client got the lock after %v", took)
		if took > 15*time.Second {
			t.Error("as late as without IDLE")
		}
		other.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		proxytest.Eventually(t, "the log says why", func() bool { return strings.Contains(l.Logs.String(), "reason=idle") })
		if info := other.Reply(t, "INFO", "leash"); !strings.Contains(info, "leash_locks_lost_idle:1\r\n") {
			t.Errorf("INFO does not count it: %q", info)
		}
	})
}

// TestIdleEndsWithActivity checks that anything that the client sends, and a command that it waits
// for, keeps its lock. Each lasts for two IDLE times. Afterwards the client is silent and loses the
// lock.
func TestIdleEndsWithActivity(t *testing.T) {
	const idle = 3 * time.Second
	for name, live := range map[string]func(redis *redistest.Server, c *redistest.Client) (reply string, err error){
		"PING": func(_ *redistest.Server, c *redistest.Client) (reply string, err error) {
			for end := time.Now().Add(2 * idle); time.Now().Before(end) && err == nil; <-time.After(idle / 20) {
				reply, err = c.Do("PING")
			}
			return reply, err
		},
		"half a command": func(_ *redistest.Server, c *redistest.Client) (string, error) {
			command := redistest.Command("ECHO", strings.Repeat("x", 40))
			for i := range command {
				if err := c.Send(command[i : i+1]); err != nil {
					return "", err
				}
				<-time.After(2 * idle / time.Duration(len(command)))
			}
			return c.Read()
		},
		"waits for a lock": func(_ *redistest.Server, c *redistest.Client) (string, error) {
			return c.Do("LOCK.ACQUIRE", "taken", "BLOCK", "6000")
		},
		"waits in Redis": func(_ *redistest.Server, c *redistest.Client) (string, error) {
			return c.Do("BLPOP",
				"nothing", "6")
		},
		"waits for Redis": func(redis *redistest.Server, c *redistest.Client) (string, error) {
			if err := redis.Pause(); err != nil {
				return "", err
			}
			if err := c.Send(redistest.Command("GET", "nothing")); err != nil {
				return "", err
			}
			<-time.After(2 * idle)
			if err := redis.Resume(); err != nil {
				return "", err
			}
			return c.Read()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(time.Minute))
			proxytest.Token(t, l.Dial(t), "taken", "LEASE", "600000")
			unstalled(t, func() error {
				c := l.Dial(t)
				c.Timeout = time.Minute
				proxytest.Token(t, c, "k", "IDLE", "3000", "ONLOSS", "ERROR")
				if reply, err := live(redis, c); err != nil {
					return fmt.Errorf("%q %w", reply, err)
				}
				began := time.Now()
				if got := c.Reply(t, "LOCK.CHECK", "k", "TOKEN", "1"); got != ":0\r\n" {
					return fmt.Errorf("got %q, want it held", got)
				}
				proxytest.Eventually(t, "it is lost", func() bool { return redis.Client().Exists(t.Context(), "k").Val() == 0 })
				if took := time.Since(began); took < idle {
					return fmt.Errorf("lost after %v of silence", took)
				}
				c.Want(t, "-LOCKLOST k idle\r\n", "LOCK.TTL", "k")
				return nil
			})
		})
	}
}

// unstalled runs a test that must itself be in time. It repeats the test if it failed while the
// machine stalled.
func unstalled(t *testing.T, test func() error) {
	t.Helper()
	for try := 1; ; try++ {
		longest, stop := time.Duration(0), make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					longest = max(longest, time.Since(last))
				}
			}
		}()
		err := test()
		close(stop)
		<-done
		if err == nil {
			return
		}
		if longest < 500*time.Millisecond || try == 5 {
			t.Fatalf("%v, and the machine stalled for %v at the most", err, longest)
		}
		t.Logf("once more, for the machine stalled for %v: %v", longest, err)
	}
}

// TestR28IdleWhileNothingIsRead checks that a client that was stopped in the middle of its replies
// counts as silent.
func TestR28IdleWhileNothingIsRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	c, next := l.Dial(t), l.Dial(t)
	c.Want(t, "+OK\r\n", "SET", "big", strings.Repeat("x", 1<<20))
	proxytest.Token(t, c, "k", "IDLE", "4000")
	began := time.Now()
	if err := c.Send(strings.Repeat(redistest.Command("GET", "big"), 300)); err != nil {
		t.Fatal(err)
	}
	next.Timeout = 60 * time.Second
	proxytest.Token(t, next, "k", "BLOCK", "0")
	if took := time.Since(began); took < 4*time.Second-50*time.Millisecond {
		t.Errorf("the lock was taken away after %v", took)
	}
}
