package script_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"

	"github.com/redis/go-redis/v9"
)

// stage is a lock on a real Redis, and a Client.
type stage struct {
	*testing.T
	*script.Client
	rdb   *redis.Client // for what scripts do not do
	lock  script.Lock
	until time.Time
}

// newClient returns a client for a server.
func newClient(t *testing.T, server *redistest.Server) *script.Client {
	return script.New(linktest.Open(t, server.Client(), nil))
}

// hold makes a hold of the owner "me" with the carrier "u:1".
func (s *stage) hold(m *script.Mode, options string) script.Hold {
	s.Helper()
	g := grant("me", "u:1", 1)
	g.Options = options
	if got := s.acquire(m, g); got != "granted, token, 30 s" {
		s.Fatal(got)
	}
	return s.inspected()
}

// ref names a hold.
func (s *stage) ref(h script.Hold) script.Ref {
	return script.Ref{Lock: s.lock, Token: h.Record.Token, Carrier: h.Record.Carrier}
}

// do runs a command on Redis.
func (s *stage) do(args ...any) {
	s.Helper()
	if err := s.rdb.Do(s.Context(), args...).Err(); err != nil {
		s.Fatalf("%v: %v", args, err)
	}
}

// say returns the values as text, with spaces between them.
func say(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// replyCase is a call, or several, and what they return.
type replyCase struct {
	run  func(s *stage) string
	want string
}

// play makes the calls, each with a lock of its own.
func play(t *testing.T, server *redistest.Server, tests map[string]replyCase) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, server)
			c.Timeout, c.Publish = 10*time.Second, "ps"
			lock := script.Lock{Key: strings.ReplaceAll(name, " ", "-")}
			s := &stage{T: t, Client: c, rdb: server.Client(), lock: lock, until: time.Now().Add(10 * time.Second)}
			if got := test.run(s); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// free is a lock that nobody holds, as the scripts see it.
var free = script.Hold{Mode: script.Plain, Owner: "me", Record: script.Record{Token: 7, Carrier: "u:1"},
	Text: "L1 7 u:1 1 7 1 30000 l - - c"}

// TestReplies: each typed function returns each of its results on a real Redis.
func TestReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	modes := []*script.Mode{script.Plain, script.Read, script.Write}
	extend := func(s *stage, h script.Hold, id string) string {
		done, err := s.Extend(script.ExtendArgs{Lock: s.lock, Hold: h, RequestID: id, Lasts: time.Minute,
			Event: "event", Keep: time.Minute}, s.until)
		return say(done.Left > 50000 && done.Left <= 60000, done.Left == -1, err)
	}
	tests := map[string]replyCase{
		"take from an empty counter": {func(s *stage) string {
			return say(s.Take(s.lock, 1, s.until))
		}, "0 false <nil>"},
		"give and take": {func(s *stage) string {
			given, err := s.Give(transport.Connection{}, s.lock, 3, s.until)
			return say(given, err) + ", " + say(s.Take(s.lock, 2, s.until))
		}, "3 <nil>, 1 true <nil>"},
		"set a latch twice and count it down": {func(s *stage) string {
			one, _ := s.SetLatch(transport.Connection{}, s.lock, 2, s.until)
			two, _ := s.SetLatch(transport.Connection{}, s.lock, 5, s.until)
			left, err := s.CountDown(transport.Connection{}, s.lock, s.until)
			return say(one, two, left, err)
		}, "1 0 1 <nil>"},
		"count down a latch that is not set": {func(s *stage) string {
			return say(s.CountDown(transport.Connection{}, s.lock, s.until))
		}, "0 <nil>"},
		"set the total of a semaphore": {func(s *stage) string {
			one, _ := s.InitSemaphore(transport.Connection{}, s.lock, 2, s.until)
			two, _ := s.InitSemaphore(transport.Connection{}, s.lock, 9, s.until)
			three, _ := s.ResizeSemaphore(transport.Connection{}, s.lock, 5, s.until)
			return say(one, two, three) + ", " + say(s.SemaphoreInfo(s.lock, s.until))
		}, "1 0 5, 5 0 <nil>"},
		"a counter of another type": {func(s *stage) string {
			s.do("HSET", s.lock.Key, "a", "b")
			_, _, err := s.Take(s.lock, 1, s.until)
			return transport.ErrorText(err)
		}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		"inspect a free lock": {func(s *stage) string {
			info, err := s.Inspect(s.lock, s.until)
			_, held := info.Shown()
			return say(held, len(info.Holds), len(info.Others), err)
		}, "false 0 0 <nil>"},
		"inspect a lock of Redisson": {func(s *stage) string {
			s.do("HSET", s.lock.Key, "java:1", "2")
			info, err := s.Inspect(s.lock, s.until)
			h, held := info.Shown()
			return say(h.Owner, h.Count, held, info.Left, len(info.Holds), len(info.Others), err)
		}, "java:1 2 true -1ms 0 1 <nil>"},
		"end a lock of Redisson": {func(s *stage) string {
			s.do("HSET", s.lock.Key, "me", "2")
			one, err := s.ForceEndOther(s.lock, free, "x:1", time.Minute, s.until)
			two, _ := s.ForceEndOther(s.lock, free, "x:2", time.Minute, s.until)
			again, _ := s.ForceEndOther(s.lock, free, "x:1", time.Minute, s.until)
			return say(one, two, again, err)
		}, "true false true <nil>"},
		"write a tombstone": {func(s *stage) string {
			r := s.ref(free)
			one, err := s.WriteTombstone(r, "lost gone", time.Minute, "channel", s.until)
			two, _ := s.WriteTombstone(r, "released", time.Minute, "", s.until)
			text, _ := s.Tombstone(r, s.until)
			left, _ := s.TombstoneLeft(r, s.until)
			return say(one, two, text, left > 50*time.Second, err)
		}, "true false lost gone true <nil>"},
		"mark a hold as broken": {func(s *stage) string {
			return say(s.MarkBroken(s.ref(free), time.Minute, "event", s.until))
		}, "true <nil>"},
		"mark a released hold as broken": {func(s *stage) string {
			s.WriteTombstone(s.ref(free), "released", time.Minute, "", s.until)
			return say(s.MarkBroken(s.ref(free), time.Minute, "event", s.until))
		}, "false <nil>"},
		"end no hold": {func(s *stage) string {
			return say(s.ForceEnd(s.lock, free, "x:1", time.Minute, s.until))
		}, "false <nil>"},
		"extend no hold": {func(s *stage) string { return extend(s, free, "x:1") }, "false true <nil>"},
		"probe a master": {func(s *stage) string {
			args := script.ProbeArgs{Marks: []string{s.lock.Key}, Keep: time.Minute}
			one, err := s.Probe(s.Context(), 0, args)
			return say(len(one.ReplID), one.Since > 0, one.Now > 0, err)
		}, "40 true true <nil>"},
	}
	for _, m := range modes {
		tests["inspect a hold, "+m.Name] = replyCase{func(s *stage) string {
			h := s.hold(m, "w")
			names, err := s.Locks(s.Context(), 0, []string{s.lock.Key, script.RecordsKey(s.lock.Key)})
			return say(h.Mode.Name, h.Owner, h.Count, h.Record.Carrier, h.Record.Token > 0, len(names), err)
		}, m.Name + " me 1 u:1 true 1 <nil>"}
		tests["end a hold, "+m.Name] = replyCase{func(s *stage) string {
			h := s.hold(m, "w")
			s.MarkBroken(s.ref(h), time.Minute, "event", s.until)
			return say(s.ForceEnd(s.lock, h, "x:1", time.Minute, s.until))
		}, "true <nil>"}
		tests["extend a lease, "+m.Name] = replyCase{func(s *stage) string {
			h := s.hold(m, "l")
			return extend(s, h, "x:1") + ", " + extend(s, h, "x:1") + ", " + extend(s, h, "x:2")
		}, "true false <nil>, true false <nil>, false true <nil>"}
		tests["undo an acquire, "+m.Name] = replyCase{func(s *stage) string {
			s.hold(m, "w")
			args := script.UndoArgs{Lock: s.lock, Mode: m, Owner: "me", Carrier: "u:1", Acquire: 1, Number: 2}
			done := s.Undo(args)
			info, err := s.Inspect(s.lock, s.until)
			_, held := info.Shown()
			return say(done, !held, err)
		}, "true true <nil>"}
	}
	play(t, server, tests)
}

func TestProbeOfAReplica(t *testing.T) {
	t.Parallel()
	replica := redistest.Start(t).Client()
	if err := replica.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	c := script.New(linktest.Open(t, replica, nil))
	c.Timeout = 10 * time.Second
	if _, err := c.Probe(t.Context(), 0, script.ProbeArgs{}); !errors.Is(err, script.ErrNoMaster) {
		t.Errorf("got %v, want %v", err, script.ErrNoMaster)
	}
}
