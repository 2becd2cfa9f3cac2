package wait_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestR22UnknownEnqueueIsUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	holder, a, key := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.NewKey()
	holder.Token(key)
	locktest.Connect(t, straight).Token(locktest.NewKey(), "FAIR") // Redis knows the script
	fault := p.DropAfter(locktest.Running(script.AcquireFairScript, key), faultproxy.Always())
	reply := a.Start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
	locktest.Eventually(t, 2*time.Second, "it is in the queue", func() bool {
		return len(locktest.FairOrder(locktest.RedisOf(straight), key)) == 1
	})
	locktest.Want(t, locktest.Receive(t, reply, 3*time.Second), "-"+refusal.Unanswered)
	fault.Disarm()
	locktest.Eventually(t, time.Second, "it has left",
		func() bool { return len(locktest.FairOrder(locktest.RedisOf(straight), key)) == 0 })
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, locktest.RedisOf(straight), key)
	if fault.Count() < 2 {
		t.Error("the right answer was not checked")
	}
}

func TestR22LostReplyOfEnqueueKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	holder, a, key := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.NewKey()
	holder.Token(key)
	locktest.Connect(t, straight).Token(locktest.NewKey(), "FAIR") // Redis knows the script
	fault := p.DropAfter(locktest.Running(script.AcquireFairScript, key))
	reply := a.WaitFair(locktest.RedisOf(straight), 1, key, "BLOCK", "0")
	locktest.NewJavaFair(t, locktest.RedisOf(straight), key, "java:1").Attempt()
	locktest.Eventually(t, 3*time.Second, "it is asked again", func() bool { return s.Stats().Waiters == 1 })
	if queue := locktest.FairOrder(locktest.RedisOf(straight), key); fault.Count() != 1 || len(queue) != 2 ||
		queue[1] != "java:1" {
		t.Errorf("got queue %v after %d faults", queue, fault.Count())
	}
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
}

func TestR22LateCopyOfAnEnqueueIsReaped(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	impatient := func(s *lockcmd.Service) { s.Waits.FairTimeout = 300 * time.Millisecond }
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, impatient), locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.NewKey()
	holder, a := locktest.Connect(t, s), locktest.Connect(t, other)
	holder.Token(key)
	gone := locktest.Connect(t, s)
	late := gone.FairWaiter(key, "")
	gone.Send(late) // its sender has given up
	if queue := locktest.FairOrder(rdb, key); !slices.Equal(queue, []string{late.Grant.Owner}) {
		t.Fatalf("got queue %v", queue)
	}
	reply := a.Start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
	locktest.Eventually(t, 5*time.Second, "it waits", func() bool { return other.Stats().Waiters == 1 })
	<-time.After(400 * time.Millisecond)
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, rdb, key)
}

func TestR22WaitersOfADeadLeashAreReaped(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	s.Waits.FairTimeout = 2 * time.Second // no other attempt is made before that
	holder, a, b, key := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.Connect(t, straight),
		locktest.NewKey()
	holder.Token(key)
	dead := a.WaitFair(locktest.RedisOf(straight), 1, key, "BLOCK", "0")
	reply := b.WaitFair(locktest.RedisOf(straight), 2, key, "BLOCK", "0")
	p.Freeze()
	began := time.Now()
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 10*time.Second))
	if took := time.Since(began); took > locktest.Soon {
		t.Errorf("it took %v", took)
	}
	p.Thaw() // The Leash was not dead. Its waiter is now last in the queue.
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, dead, 10*time.Second))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, locktest.RedisOf(straight), key)
}

func TestR22WaitersPassAtMaxmemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, ctx := locktest.DialServer(t, server.Addr), context.Background()
	// an attempt and its wake-up end before the next attempt
	rareRetries := func(s *lockcmd.Service) { s.Waits.Interval = 3 * time.Second }
	s, key := locktest.Start(t, rdb, lockcmd.Config{}, rareRetries), locktest.NewKey()
	holder, a, b := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	holder.Token(key)
	reply := a.WaitFair(rdb, 1, key, "OWNER", "me", "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"),
		"-OOM command not allowed when used memory > 'maxmemory'.")
	heard := rdb.ZScore(ctx, script.QueueKeys(key)[2], "me").Val()
	locktest.Eventually(t, 3*time.Second, "its heartbeat is renewed", func() bool {
		return rdb.ZScore(ctx, script.QueueKeys(key)[2], "me").Val() > heard
	})
	locktest.Eventually(t, time.Second, "the attempt has ended", func() bool {
		return s.Waits.Rests(wait.QueueID{Lock: locktest.LockOf(key), Channel: script.LockChannel(key) + ":me"})
	})
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1") // and hands the lock over
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, rdb, key)
}

func TestR22PausedRedisLeavesNobodyInTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, ctx := locktest.DialServer(t, server.Addr), context.Background()
	s, key := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout}), locktest.NewKey()
	holder, a := locktest.Connect(t, s), locktest.Connect(t, s)
	holder.Token(key)
	rdb.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE")
	if reply := a.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "300"); reply != "-"+refusal.Unanswered &&
		reply != "-"+refusal.NotAccepted {
		t.Errorf("got %q", reply)
	}
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	rdb.Do(ctx, "CLIENT", "UNPAUSE")
	<-time.After(1500 * time.Millisecond)
	locktest.WantNothingLeft(t, rdb, key)
	locktest.Eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
}

func TestR14FairInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s := locktest.Start(t, rdb, lockcmd.Config{})
	tag := "{" + locktest.NewKey() + "}"
	held, waited := tag+"1", tag+"2"
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(held, "FAIR")
	a.Token(waited, "FAIR")
	reply := b.WaitFair(rdb, 1, waited, "BLOCK", "0")
	m, finish := locktest.StartMigration(t, tag)
	if err := m.MoveKey(held, waited); err != nil {
		t.Fatal(err)
	}
	fresh := c.Start("LOCK.ACQUIRE", held, "FAIR", "BLOCK", "0")
	locktest.Want(t, a.Do("LOCK.RELEASE", held), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", waited), ":1")
	if locktest.Exists(t, rdb, held) {
		t.Error("the lock is still there")
	}
	finish()
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
	locktest.TokenOf(t, locktest.Receive(t, fresh, 5*time.Second))
	locktest.Want(t, b.Do("LOCK.RELEASE", waited), ":1")
	locktest.Want(t, c.Do("LOCK.RELEASE", held), ":1")
	locktest.WantNothingLeft(t, rdb, held)
	locktest.WantNothingLeft(t, rdb, waited)
}

// TestR14NoHandOverWithoutTheFairQueue: The queue has moved, and the lock has not. A waiter that
// got the lock would stay in the queue. Those behind it would wait until it counts as dead.
func TestR14NoHandOverWithoutTheFairQueue(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key, "FAIR")
	reply := b.WaitFair(rdb, 1, key, "BLOCK", "0")
	m, finish := locktest.StartMigration(t, key)
	if err := m.MoveKey(script.QueueKeys(key)...); err != nil {
		t.Fatal(err)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if locktest.Exists(t, rdb, key) {
		t.Error("the lock was handed over")
	}
	finish()
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, rdb, key)
}
