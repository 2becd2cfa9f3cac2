package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// TestWantedNotifierReportsTheNewHolder: A hand-over within another Leash sends no message here.
// The notifier learns the new holder from its token.
func TestWantedNotifierReportsTheNewHolder(t *testing.T) {
	t.Parallel()
	takesLong(t)
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	w := connect(t, s).carrier.newAcquisition(acquireOptions{key: newKey(), mode: script.Plain}, nil)
	n := s.newWantedNotifier(s.queues.join(w.queueID(), w, false), 7)
	told := func() bool {
		due := n.due
		if due {
			n.publishIfHead()
			eventually(t, soon, "they are told", func() bool { return !n.publishing.Load() })
		}
		return due
	}
	if !told() {
		t.Error("the first holder is not told")
	}
	// after 2 checks, then after 4
	for _, want := range []bool{false, true, false, false, false, true} {
		if n.noteAttempt(false, 7); told() != want {
			t.Fatalf("reported %v, want %v, after %d checks at a pace of %d", !want, want, n.attempts, n.pace)
		}
	}
	if n.noteAttempt(false, 0); told() {
		t.Error("reported again, without another holder")
	}
	if n.noteAttempt(false, 8); n.after != 7 || !told() {
		t.Errorf("of others, those are to be told who got it after %d, want 7", n.after)
	}
	if n.noteAttempt(false, 8); told() {
		t.Error("it is told again at once")
	}
	if n.noteAttempt(true, 9); n.after != 0 || !told() {
		t.Error("the lock was free in between, and not all are told")
	}
	n.publishing.Store(true)
	n.noteAttempt(false, 10)
	if n.publishIfHead(); !n.due || n.after != 9 {
		t.Error("a waiter that came during the wake-ups will not be woken")
	}
	n.publishing.Store(false)
}

// TestTakenReplyContainsTheToken: The reply "taken" contains the token of the current holder.
func TestTakenReplyContainsTheToken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		ask := func(key string, m *script.Mode) result {
			w := connect(t, other).carrier.newAcquisition(acquireOptions{key: key, mode: m, ttl: time.Minute}, nil)
			defer w.unlockOwn()
			return w.send(other.deadline())
		}
		for _, m := range script.Modes {
			asks := m
			if m == script.Read {
				asks = script.Write
			}
			a, key := connect(t, s), newKey()
			for range 2 {
				token := a.hold(key, m.Option)
				if r := ask(key, asks); r.kind != taken || r.token != token {
					t.Errorf("%s: got %v, token %d, want %d", m.Name, r.kind, r.token, token)
				}
				want(t, a.do("LOCK.RELEASE", key), ":1")
			}
		}
		key := newKey()
		rdb.HSet(context.Background(), key, newUUID()+":1", 1) // a hold of Redisson
		rdb.PExpire(context.Background(), key, time.Minute)
		if r := ask(key, script.Plain); r.kind != taken || r.token != 0 {
			t.Errorf("Redisson's: got %v, token %d", r.kind, r.token)
		}
	})
}
