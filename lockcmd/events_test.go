package lockcmd

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestR30EventThatOvertakesTheGrant: Another Leash ends a hold before its own Leash has received
// the reply to its grant.
func TestR30EventThatOvertakesTheGrant(t *testing.T) {
	t.Parallel()
	s, other, p := faulty(t, Config{WatchdogTimeout: 10 * time.Minute}, patientBreak) // no renewal finds the end
	connect(t, s).token(newKey())                                                     // Redis knows the script
	for _, end := range []string{"LOCK.RELEASE", "LOCK.BREAK"} {
		a, key := connect(t, s), newKey()
		held := p.HoldAfter(running(script.AcquireScript, key))
		reply := a.start("LOCK.ACQUIRE", key, "OWNER", "me")
		<-held.Triggered()
		args := []string{end, key}
		if end == "LOCK.RELEASE" {
			args = append(args, "OWNER", "me")
		}
		done := connect(t, other).start(args...)
		eventually(t, 5*time.Second, "the event has arrived", func() bool { return s.events.pending.Holds() > 0 })
		held.Release()
		tokenOf(t, receive(t, reply, soon))
		want(t, receive(t, done, 10*time.Second), ":1")
		eventually(t, 5*time.Second, end+" is known", func() bool { return a.carrier.Holds() == 0 })
		if lost := len(a.losses) == 1; lost != (end == "LOCK.BREAK") {
			t.Errorf("%s: told of a loss: %v", end, lost)
		}
		if n := s.events.pending.Holds(); n != 0 {
			t.Errorf("%s: events of %d holds are kept", end, n)
		}
	}
}

// TestPendingEventsOfOthers: A Leash keeps no events for holds of other Leashes.
func TestPendingEventsOfOthers(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	s.receive(event.Text(event.Moved, 1, "another:1.1", "key"))
	s.receive(event.Text(event.Wanted, 1, s.holds.Leash+":1.1", "key")) // nobody here wants to know
	s.receive(event.Text(event.Moved, 2, s.holds.Leash+":1.1", "key"))
	if n := s.events.pending.Holds(); n != 1 {
		t.Errorf("events of %d holds are kept, want 1", n)
	}
}

// TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock: A hold was released through another Leash, and
// its own Leash does not know yet. An acquire on its connection must not be refused as a deadlock.
func TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, err := New(Config{WatchdogTimeout: 10 * time.Minute}, rdb, silentSubscriber{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(runService(s))
		a, key := connect(t, s), newKey()
		token := strconv.FormatInt(a.token(key), 10)
		want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "1000"), "-"+msgDeadlock)
		want(t, connect(t, leash(t, rdb, Config{})).do("LOCK.RELEASE", key, "TOKEN", token), ":1")
		a.token(key, "BLOCK", "1000")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if len(a.losses) != 0 {
			t.Errorf("reported as lost: %s", <-a.losses)
		}
	})
}

// TestR7IDsOfTwoOwnersAreDifferent: Two owners may use the same request ID.
func TestR7IDsOfTwoOwnersAreDifferent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "OWNER", "a", "ID", "1")
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1")
		b.token(key, "OWNER", "b", "ID", "1")
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "c", "ID", "2"), "-"+msgNotHeld)
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "b", "ID", "2"), ":1")
		if exists(t, rdb, key) {
			t.Error("reported as released, and still held")
		}
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1") // the same release again
	})
}

// TestR14WriterHandsOverToAReaderInASlotThatMigrates: The keys of the lock are on two nodes, so the
// hand-over to a reader fails. The release of the writer is still complete.
func TestR14WriterHandsOverToAReaderInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := leash(t, dialCluster(t, cluster.Addrs()...), Config{})
	key := newKey()
	a, b := connect(t, s), connect(t, s)
	a.token(key, "WRITE")
	waiting := b.await(s, 1, key, "READ", "BLOCK", "0")
	slot := int(slots.Of([]byte(key)))
	move, err := cluster.BeginMove(slot, cluster.MasterOf((slot+slots.Count/2)%slots.Count))
	if err != nil {
		t.Fatal(err)
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if len(a.losses) != 0 {
		t.Errorf("reported as lost: %s", <-a.losses)
	}
	eventually(t, 5*time.Second, "the lock is free", func() bool {
		err := cluster.MasterOf(slot).Client().Exists(t.Context(), key).Err()
		return redis.HasErrorPrefix(err, "ASK") // ASK would lead to the slot's new master
	})
	if err := move.Abort(); err != nil {
		t.Fatal(err)
	}
	if token := tokenOf(t, receive(t, waiting, 10*time.Second)); token == 0 || b.carrier.Holds() != 1 {
		t.Error("the reader did not get in")
	}
}
