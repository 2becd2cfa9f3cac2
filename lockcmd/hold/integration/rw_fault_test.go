package hold_test

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR7LostRepliesOfReadAndWrite(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	rdb := locktest.RedisOf(straight)
	for _, m := range []*script.Mode{script.Read, script.Write} {
		for _, before := range []bool{false, true} {
			key, other := locktest.NewKey(), locktest.NewKey()
			a, field := locktest.Connect(t, s), map[*script.Mode]string{script.Read: "me", script.Write: "me:write"}[m]
			a.Token(other, m.Option) // Redis knows the script
			locktest.Want(t, a.Do("LOCK.RELEASE", other), ":1")
			arm := p.DropAfter
			if before {
				arm = p.DropBefore
			}
			fault := arm(locktest.Running(m.Acquire, key))
			token := a.Token(key, m.Option, "OWNER", "me")
			if fault.Count() != 1 {
				t.Fatal("no reply was lost")
			}
			locktest.Want(t, locktest.Count(rdb, key, field), "1")
			fault = arm(locktest.Running(m.Acquire, key))
			if again := a.Token(key, m.Option, "OWNER", "me"); again != token || fault.Count() != 1 {
				t.Fatalf("got token %d, want %d", again, token)
			}
			locktest.Want(t, locktest.Count(rdb, key, field), "2")
			if left := locktest.ReadTimeout(rdb, key, "me", 3); left > 0 {
				t.Errorf("a repeated acquire left a third timeout key: %v", left)
			}
			fault = arm(locktest.Running(m.Release, key))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
			locktest.Want(t, locktest.Count(rdb, key, field), "1")
			again := arm(locktest.Running(m.Release, key))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			if fault.Count()+again.Count() != 2 {
				t.Error("no reply was lost")
			}
			locktest.WantNothing(t, rdb, key, a)
		}
	}
}

func TestR7LateCopiesOfReadAndWriteDoNothing(t *testing.T) {
	t.Parallel()
	s, straight, _ := locktest.StartFaulty(t, lockcmd.Config{})
	rdb, until := locktest.RedisOf(straight), time.Now().Add(5*time.Second)
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, key, field := locktest.Connect(t, s), locktest.NewKey(), map[*script.Mode]string{script.Read: "me",
			script.Write: "me:write"}[m]
		token := a.Token(key, m.Option, "OWNER", "me")
		late := a.AcquireOf(m, key, "me") // sent, and delayed on its way
		late.Token = token
		a.Token(key, m.Option, "OWNER", "me")
		if r := a.Send(late); r.Outcome != script.AcquireStale || locktest.Count(rdb, key, field) != "2" {
			t.Errorf("a late acquire changed the count to %s, and said %v", locktest.Count(rdb, key, field), r)
		}
		release := func(token, number int64) *script.ReleaseArgs {
			return a.ReleaseOf(m, key, token, number)
		}
		for _, row := range []struct {
			request *script.ReleaseArgs
			code    int64
			left    string
		}{
			{release(token, 1), script.StaleRequest, "2"},
			{release(token-1, a.Carrier.Requests.Add(1)), script.NoSuchHold, "2"},
			{release(token, a.Carrier.Requests.Load()), script.CountsRemain, "1"},
			{release(token, a.Carrier.Requests.Load()), script.CountsRemain, "1"},
		} {
			answer, err := s.Redis.Release(row.request, until)
			if err != nil || answer != row.code || locktest.Count(rdb, key, field) != row.left {
				t.Errorf("%+v: got %v %v and count %s, want %d and %s", row.request.End, answer, err,
					locktest.Count(rdb, key, field), row.code, row.left)
			}
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
		locktest.WantNothing(t, rdb, key, a)
	}
}

func TestR26UnknownReadAndWriteAreUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout},
		locktest.SlowRetries)
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, c, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.Connect(t, straight),
			locktest.NewKey()
		p.DropAfter(locktest.Running(m.Acquire, key), faultproxy.Always())
		c.Token(key, "READ") // another reader continues
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, m.Option, "TTL", "60000"), "-"+refusal.Unanswered)
		began := time.Now()
		b.Token(key, "WRITE", "BLOCK", "0")
		if took := time.Since(began); took > locktest.Soon {
			t.Errorf("the lock was free only after %v", took)
		}
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, locktest.RedisOf(straight), key, a, b, c)
	}
}

// TestR26UndoneReaderLeavesTheOthers: An undo ends what its acquire did, and leaves the holds of
// others.
func TestR26UndoneReaderLeavesTheOthers(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout,
		WatchdogTimeout: 10 * time.Minute})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
	other := b.Token(key, "READ", "OWNER", "other")
	token := a.Token(key, "READ", "OWNER", "me")
	fault := p.DropAfter(locktest.Running(script.Read.Acquire, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "READ", "OWNER", "me"), "-"+refusal.Unanswered)
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "READ", "OWNER", "you"), "-"+refusal.Unanswered)
	fault.Disarm()
	locktest.Eventually(t, 2*time.Second, "they are undone", func() bool {
		got := locktest.InRedis(t, locktest.RedisOf(straight), key)
		return got["me"] == "1" && got["you"] == "" && got["other"] == "1"
	})
	for owner, n := range map[string]int64{"me": token, "other": other} {
		if r, _ := script.ParseRecord(locktest.InRedis(t, locktest.RedisOf(straight),
			script.RecordsKey(key))[owner]); r.Token != n {
			t.Errorf("%s has token %d, want %d", owner, r.Token, n)
		}
		if left := locktest.ReadTimeout(locktest.RedisOf(straight), key, owner, 1); left < 5*time.Minute {
			t.Errorf("%s has %v left", owner, left)
		}
	}
	if left := locktest.ReadTimeout(locktest.RedisOf(straight), key, "me", 2); left > 0 {
		t.Errorf("what was undone has %v left", left)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothing(t, locktest.RedisOf(straight), key, a, b)
}

func TestR26UnansweredReleaseOfReadAndWrite(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
		a.Token(key, m.Option, "OWNER", "me")
		a.Token(key, m.Option, "OWNER", "me")
		for range 2 {
			fault := p.DropBefore(locktest.Running(m.Release, key), faultproxy.Always())
			locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
			fault.Disarm()
			locktest.Eventually(t, time.Second, "the release is repeated", func() bool {
				return locktest.InRedis(t, locktest.RedisOf(straight), key)["me"] != "2" &&
					locktest.InRedis(t, locktest.RedisOf(straight), key)["me:write"] != "2"
			})
		}
		locktest.Eventually(t, 2*time.Second, "the hold is over", func() bool {
			return !locktest.Exists(t, locktest.RedisOf(straight), key) && a.Carrier.Holds() == 0
		})
		locktest.WantNothing(t, locktest.RedisOf(straight), key, a)
	}
}

func TestR27LossOfReadAndWrite(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s := locktest.Start(t, rdb, lockcmd.Config{})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, m.Option)
		rdb.Del(t.Context(), key) // deleted without Leash, as by Java's forceUnlock
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, a.Losses, 3*time.Second), key+" gone")
	}
}

func TestR30ReadAndWriteAreReleasedFromAnotherLeash(t *testing.T) {
	t.Parallel()
	s, other, p := locktest.StartFaulty(t, lockcmd.Config{})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey()
		token := strconv.FormatInt(a.Token(key, m.Option, "OWNER", "me"), 10)
		a.Token(key, m.Option, "OWNER", "me")
		p.DropAfter(locktest.Running(m.Revoke, key))
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", "5"), "-"+refusal.NotHeld)
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "you"), "-"+refusal.NotHeld)
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", token), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "1"), ":1") // its reply is lost
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "1"), ":1")
		locktest.Eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.Carrier.Holds() == 0 })
		locktest.WantNothing(t, locktest.RedisOf(other), key, a, b)
	}
}

func TestR21LostReplyOfReadWriteHandOver(t *testing.T) {
	t.Parallel()
	for _, options := range [][2]string{{"WRITE", "WRITE"}, {"READ", "WRITE"}, {"WRITE", "READ"}} {
		for _, before := range []bool{false, true} {
			// A release that meets its waiter's own attempt hands nothing over.
			for try := 1; !lostReadWriteHandOver(t, options, before); try++ {
				if try == 50 {
					t.Fatal("no release hands over")
				}
			}
		}
	}
}

func lostReadWriteHandOver(t *testing.T, options [2]string, before bool) bool {
	t.Helper()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	old := a.Token(key, options[0])
	reply := b.Await(s, 1, key, options[1], "BLOCK", "0")
	arm := p.DropAfter
	if before {
		arm = p.DropBefore
	}
	m := map[string]*script.Mode{"READ": script.Read, "WRITE": script.Write}[options[0]]
	fault := arm(locktest.Running(m.Handover, key))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if token := locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second)); token <= old || fault.Count() > 1 {
		t.Errorf("got token %d after %d, %d faults", token, old, fault.Count())
	}
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothing(t, locktest.RedisOf(straight), key, a, b)
	return fault.Count() == 1
}
