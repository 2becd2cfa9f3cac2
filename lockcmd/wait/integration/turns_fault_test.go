package wait_test

import (
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// TestR21AWaiterThatComesDuringTheRelease: A waiter of the releasing Leash comes after the release
// was sent, and attempted before. The release takes its Leash out of the list of turns. Without
// messages it gets in again, long before it would retry at the end of the lease of 30 s.
func TestR21AWaiterThatComesDuringTheRelease(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{}, locktest.SlowRetries)
	key, rdb := locktest.NewKey(), locktest.RedisOf(straight)
	holder, far, near := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.Connect(t, s)
	holder.Token(key)
	got := far.Await(straight, 1, key, "BLOCK", "0")
	subscribe := p.HoldBefore(faultproxy.Named("SUBSCRIBE", "SSUBSCRIBE"), faultproxy.Always())
	defer subscribe.Release()
	attempt := p.HoldAfter(locktest.Running(script.AcquireScript, key))
	reply := near.Start("LOCK.ACQUIRE", key, "BLOCK", "0")
	if err := attempt.Await(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	release := p.HoldBefore(locktest.Running(script.ReleaseScript, key))
	released := holder.Start("LOCK.RELEASE", key)
	if err := release.Await(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	attempt.Release()
	locktest.Eventually(t, 5*time.Second, "it waits", func() bool { return s.Stats().Waiters == 1 })
	release.Release()
	locktest.Want(t, locktest.Receive(t, released, 5*time.Second), ":1")
	locktest.TokenOf(t, locktest.Receive(t, got, 5*time.Second))
	locktest.Eventually(t, time.Second, "its Leash is in the list", func() bool {
		return len(turnsOf(t, rdb, key)) == 1
	})
	locktest.Want(t, far.Do("LOCK.RELEASE", key), ":1")
	subscribe.Release()
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
}
