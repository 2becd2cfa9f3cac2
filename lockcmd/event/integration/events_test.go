package event_test

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/proxy/slots"
)

// TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock: A hold was released through another Leash, and
// its own Leash does not know yet. An acquire on its connection must not be refused as a deadlock.
func TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := lockcmd.New(lockcmd.Config{WatchdogTimeout: 10 * time.Minute}, linktest.Open(t, rdb, nil),
			locktest.SilentSubscriber{}, slog.New(slog.DiscardHandler))
		t.Cleanup(locktest.RunService(s))
		a, key := locktest.Connect(t, s), locktest.NewKey()
		token := strconv.FormatInt(a.Token(key), 10)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "BLOCK", "1000"), "-"+refusal.Deadlock)
		locktest.Want(t, locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{})).Do("LOCK.RELEASE", key, "TOKEN",
			token), ":1")
		a.Token(key, "BLOCK", "1000")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if len(a.Losses) != 0 {
			t.Errorf("reported as lost: %s", <-a.Losses)
		}
	})
}

// TestR7IDsOfTwoOwnersAreDifferent: Two owners may use the same request ID.
func TestR7IDsOfTwoOwnersAreDifferent(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "OWNER", "a", "ID", "1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1")
		b.Token(key, "OWNER", "b", "ID", "1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "c", "ID", "2"), "-"+refusal.NotHeld)
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "b", "ID", "2"), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("reported as released, and still held")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1") // the same release again
	})
}

// TestR14WriterHandsOverToAReaderInASlotThatMigrates: The keys of the lock are on two nodes, so the
// hand-over to a reader fails. The release of the writer is still complete.
func TestR14WriterHandsOverToAReaderInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := locktest.Start(t, locktest.DialCluster(t, cluster.Addrs()...), lockcmd.Config{})
	key := locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key, "WRITE")
	waiting := b.Await(s, 1, key, "READ", "BLOCK", "0")
	slot := int(slots.Of([]byte(key)))
	move, err := cluster.BeginMove(slot, cluster.MasterOf((slot+slots.Count/2)%slots.Count))
	if err != nil {
		t.Fatal(err)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if len(a.Losses) != 0 {
		t.Errorf("reported as lost: %s", <-a.Losses)
	}
	locktest.Eventually(t, 5*time.Second, "the lock is free", func() bool {
		err := cluster.MasterOf(slot).Client().Exists(t.Context(), key).Err()
		return redis.HasErrorPrefix(err, "ASK") // ASK would lead to the slot's new master
	})
	if err := move.Abort(); err != nil {
		t.Fatal(err)
	}
	if token := locktest.TokenOf(t, locktest.Receive(t, waiting, 10*time.Second)); token == 0 ||
		b.Carrier.Holds() != 1 {
		t.Error("the reader did not get in")
	}
}
