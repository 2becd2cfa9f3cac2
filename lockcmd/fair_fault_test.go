package lockcmd

import (
	"context"
	"slices"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestR22UnknownEnqueueIsUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	holder, a, key := connect(t, straight), connect(t, s), newKey()
	holder.token(key)
	connect(t, straight).token(newKey(), "FAIR") // Redis knows the script
	fault := p.DropAfter(running(script.AcquireFairScript, key), faultproxy.Always())
	reply := a.start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
	eventually(t, 2*time.Second, "it is in the queue", func() bool {
		return len(order(straight.Redis.Redis, key)) == 1
	})
	want(t, receive(t, reply, 3*time.Second), "-"+refusal.Unanswered)
	fault.Disarm()
	eventually(t, time.Second, "it has left", func() bool { return len(order(straight.Redis.Redis, key)) == 0 })
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, straight.Redis.Redis, key)
	if fault.Count() < 2 {
		t.Error("the right answer was not checked")
	}
}

func TestR22LostReplyOfEnqueueKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	holder, a, key := connect(t, straight), connect(t, s), newKey()
	holder.token(key)
	connect(t, straight).token(newKey(), "FAIR") // Redis knows the script
	fault := p.DropAfter(running(script.AcquireFairScript, key))
	reply := a.waitFair(straight.Redis.Redis, 1, key, "BLOCK", "0")
	java(t, straight.Redis.Redis, key, "java:1").attempt()
	eventually(t, 3*time.Second, "it is asked again", func() bool { return s.Stats().Waiters == 1 })
	if queue := order(straight.Redis.Redis, key); fault.Count() != 1 || len(queue) != 2 || queue[1] != "java:1" {
		t.Errorf("got queue %v after %d faults", queue, fault.Count())
	}
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, reply, 3*time.Second))
}

func TestR22LateCopyOfAnEnqueueIsReaped(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	impatient := func(s *Service) { s.Waits.FairTimeout = 300 * time.Millisecond }
	s, other, key := leash(t, rdb, Config{}, impatient), leash(t, rdb, Config{}), newKey()
	holder, a := connect(t, s), connect(t, other)
	holder.token(key)
	gone := connect(t, s)
	late := gone.fairWaiter(key, "")
	gone.send(late) // its sender has given up
	if queue := order(rdb, key); !slices.Equal(queue, []string{late.Grant.Owner}) {
		t.Fatalf("got queue %v", queue)
	}
	reply := a.start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
	eventually(t, 5*time.Second, "it waits", func() bool { return other.Stats().Waiters == 1 })
	<-time.After(400 * time.Millisecond)
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, rdb, key)
}

func TestR22WaitersOfADeadLeashAreReaped(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	s.Waits.FairTimeout = 2 * time.Second // no other attempt is made before that
	holder, a, b, key := connect(t, straight), connect(t, s), connect(t, straight), newKey()
	holder.token(key)
	dead := a.waitFair(straight.Redis.Redis, 1, key, "BLOCK", "0")
	reply := b.waitFair(straight.Redis.Redis, 2, key, "BLOCK", "0")
	p.Freeze()
	began := time.Now()
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, reply, 10*time.Second))
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	p.Thaw() // The Leash was not dead. Its waiter is now last in the queue.
	want(t, b.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, dead, 10*time.Second))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, straight.Redis.Redis, key)
}

func TestR22WaitersPassAtMaxmemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, ctx := dialServer(t, server.Addr), context.Background()
	// an attempt and its wake-up end before the next attempt
	rareRetries := func(s *Service) { s.Waits.Interval = 3 * time.Second }
	s, key := leash(t, rdb, Config{}, rareRetries), newKey()
	holder, a, b := connect(t, s), connect(t, s), connect(t, s)
	holder.token(key)
	reply := a.waitFair(rdb, 1, key, "OWNER", "me", "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	want(t, b.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"), "-OOM command not allowed when used memory > 'maxmemory'.")
	heard := rdb.ZScore(ctx, script.QueueKeys(key)[2], "me").Val()
	eventually(t, 3*time.Second, "its heartbeat is renewed", func() bool {
		return rdb.ZScore(ctx, script.QueueKeys(key)[2], "me").Val() > heard
	})
	eventually(t, time.Second, "the attempt has ended", func() bool {
		return s.Waits.Rests(wait.QueueID{Lock: lockOf(key), Channel: script.LockChannel(key) + ":me"})
	})
	want(t, holder.do("LOCK.RELEASE", key), ":1") // and hands the lock over
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, rdb, key)
}

func TestR22PausedRedisLeavesNobodyInTheQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, ctx := dialServer(t, server.Addr), context.Background()
	s, key := leash(t, rdb, Config{UpstreamTimeout: shortTimeout}), newKey()
	holder, a := connect(t, s), connect(t, s)
	holder.token(key)
	rdb.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE")
	if reply := a.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "300"); reply != "-"+refusal.Unanswered && reply != "-"+refusal.Refused {
		t.Errorf("got %q", reply)
	}
	want(t, holder.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	rdb.Do(ctx, "CLIENT", "UNPAUSE")
	<-time.After(1500 * time.Millisecond)
	wantNothingLeft(t, rdb, key)
	eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
}

func TestR14FairInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s := leash(t, rdb, Config{})
	tag := "{" + newKey() + "}"
	held, waited := tag+"1", tag+"2"
	a, b, c := connect(t, s), connect(t, s), connect(t, s)
	a.token(held, "FAIR")
	a.token(waited, "FAIR")
	reply := b.waitFair(rdb, 1, waited, "BLOCK", "0")
	m, finish := startMigration(t, tag)
	if err := m.MoveKey(held, waited); err != nil {
		t.Fatal(err)
	}
	fresh := c.start("LOCK.ACQUIRE", held, "FAIR", "BLOCK", "0")
	want(t, a.do("LOCK.RELEASE", held), ":1")
	want(t, a.do("LOCK.RELEASE", waited), ":1")
	if exists(t, rdb, held) {
		t.Error("the lock is still there")
	}
	finish()
	tokenOf(t, receive(t, reply, 5*time.Second))
	tokenOf(t, receive(t, fresh, 5*time.Second))
	want(t, b.do("LOCK.RELEASE", waited), ":1")
	want(t, c.do("LOCK.RELEASE", held), ":1")
	wantNothingLeft(t, rdb, held)
	wantNothingLeft(t, rdb, waited)
}
