package program

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// startOne starts a Leash process in front of a Redis.
func startOne(t *testing.T, ttl time.Duration) (*leashtest.Leash, *redistest.Server) {
	t.Helper()
	s, dir := redistest.Start(t), t.TempDir()
	binary := leashtest.Binary(t)
	l, err := leashtest.Start(t.Context(), binary, dir, "--upstream", s.Addr, "--watchdog-timeout", ttl.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return l, s
}

// holder is a client with a lock, and its request while Leash is suspended.
type holder struct {
	*redistest.Client
	key, command, want string
	closes             bool // Leash must close its connection when the lock is lost
}

func newHolder(t *testing.T, l *leashtest.Leash, key, command string, options ...string) *holder {
	t.Helper()
	c, err := redistest.Dial(l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.Timeout = ample
	if reply, err := c.Do(append([]string{"LOCK.ACQUIRE", key}, options...)...); err != nil || reply[0] != ':' {
		t.Fatalf("got %q, %v", reply, err)
	}
	return &holder{Client: c, key: key, command: command}
}

// pause suspends Leash for that long, and lets the holders send their requests during it. Leash
// reads them when it continues.
func pause(t *testing.T, l *leashtest.Leash, d time.Duration, holders []*holder) {
	t.Helper()
	if err := l.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, h := range holders {
		if err := h.Send(redistest.Command(strings.Fields(h.command)...)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(d) // the test is about this duration
	if err := l.Resume(); err != nil {
		t.Fatal(err)
	}
}

// TestR25APausedLeashClaimsNothing: a Leash that was suspended for longer than the TTL answers
// requests from that time as for a lost lock.
func TestR25APausedLeashClaimsNothing(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	l, _ := startOne(t, ttl)
	var holders []*holder
	for _, onloss := range []string{"CLOSE", "ERROR"} {
		for _, row := range []struct{ command, want string }{
			{"LOCK.TTL %s", ":-2\r\n"}, {"LOCK.TTL %s OWNER me", ":-2\r\n"}, {"LOCK.RELEASE %s", ""}, {"LOCK.RELEASE %s OWNER me", ""},
			{"LOCK.ACQUIRE %s OWNER me", ""}, {"LOCK.ACQUIRE %s OWNER me BLOCK 0", ""},
		} {
			for range 5 {
				key := fmt.Sprint("lock", len(holders))
				h := newHolder(t, l, key, fmt.Sprintf(row.command, key), "OWNER", "me", "ONLOSS", onloss)
				h.want, h.closes = row.want, onloss == "CLOSE"
				holders = append(holders, h)
			}
		}
	}
	pause(t, l, ttl+ttl/4, holders)
	for _, h := range holders {
		reply, err := h.Read()
		closed := h.closes && errors.Is(err, io.EOF)
		if !closed && !strings.HasPrefix(reply, "-LOCKLOST ") && (h.want == "" || reply != h.want) {
			t.Errorf("%s was answered %q, %v", h.command, reply, err)
		}
	}
	if err := l.AwaitInfo(ample, "holds:0"); err != nil {
		t.Error(err)
	}
}

// TestR25AShortPause: a Leash is suspended for longer than a renewal may wait, and for less than
// the TTL. Its answers must then agree with Redis.
func TestR25AShortPause(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	l, s := startOne(t, ttl)
	redis, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	var holders []*holder
	for i := range 20 {
		key := fmt.Sprint("lock", i)
		holders = append(holders, newHolder(t, l, key, "LOCK.TTL "+key, "ONLOSS", "ERROR"))
	}
	pause(t, l, ttl/2, holders)
	resumed := time.Now()
	for _, h := range holders {
		reply, err := h.Read()
		if err != nil {
			t.Fatal(err)
		}
		// the machine stalled, too
		if strings.HasPrefix(reply, "-LOCKLOST ") || reply == ":-2\r\n" {
			continue
		}
		there, err := redis.Do("PTTL", h.key)
		if err != nil {
			t.Fatal(err)
		}
		if claimed, left := inMillis(t, reply), inMillis(t, there); left < claimed-time.Since(resumed) {
			t.Errorf("Leash answered %v, but Redis had %v left", claimed, left)
		}
	}
}

func inMillis(t *testing.T, reply string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(reply, ":")))
	if err != nil {
		t.Fatalf("got %q, want an integer", reply)
	}
	return time.Duration(n) * time.Millisecond
}
