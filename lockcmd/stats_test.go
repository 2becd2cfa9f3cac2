package lockcmd_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/histogram"
	"leash/internal/locktest"
	"leash/lockcmd"
)

func observed(s histogram.Snapshot) (n uint64) {
	for _, count := range s.Counts {
		n += count
	}
	return n
}

// TestStatsOfHoldsAndWaits checks what the figures say of holds in each mode, of acquires that find
// the lock taken, and of the times of waits, holds and hand-overs.
func TestStatsOfHoldsAndWaits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		plain, rw, fair, other, sem := locktest.NewKey(), locktest.NewKey(), locktest.NewKey(), locktest.NewKey(),
			locktest.NewKey()
		for _, args := range [][]string{
			{"LOCK.ACQUIRE", plain}, {"LOCK.ACQUIRE", rw, "READ"}, {"LOCK.ACQUIRE", other, "WRITE"},
			{"LOCK.ACQUIRE", fair, "FAIR"}, {"SEM.INIT", sem, "2"}, {"SEM.ACQUIRE", sem, "COUNT", "2"},
		} {
			if reply := a.Do(args...); reply[0] == '-' {
				t.Fatalf("%q: got %s", args, reply)
			}
		}
		got := s.Stats()
		for mode, n := range map[string]int64{"plain": 1, "read": 1, "write": 1, "fair": 1, "permit": 2} {
			if got.HoldsByMode[mode] != n {
				t.Errorf("holds in mode %s: got %d, want %d", mode, got.HoldsByMode[mode], n)
			}
		}
		if got.Holds != 6 || observed(got.HoldTimes) != 0 {
			t.Errorf("got %+v", got)
		}

		b.Do("LOCK.ACQUIRE", plain)
		b.Do("SEM.ACQUIRE", sem)
		b.Do("LOCK.MACQUIRE", "1", plain)
		if got := s.Stats().Taken; got != 3 {
			t.Errorf("taken: got %d, want 3", got)
		}
		waiting := b.Start("LOCK.ACQUIRE", plain, "BLOCK", "0")
		locktest.Eventually(t, locktest.Soon, "it waits", func() bool { return s.Stats().Waiters == 1 })
		<-time.After(2 * time.Millisecond) // so that the hold lasts longer than the first bucket
		locktest.Want(t, a.Do("LOCK.RELEASE", plain), ":1")
		<-waiting
		got = s.Stats()
		if observed(got.WaitTimes) != 1 || observed(got.HoldTimes) != 1 ||
			int64(observed(got.HandoverTimes)) != got.Handovers {
			t.Errorf("times: got %+v", got)
		}
		if got.HoldTimes.Sum < time.Millisecond || got.HoldsByMode["plain"] != 1 {
			t.Errorf("got %+v", got)
		}
	})
}
