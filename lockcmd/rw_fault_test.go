package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR7LostRepliesOfReadAndWrite(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	rdb := straight.Redis.Redis
	for _, m := range []*script.Mode{script.Read, script.Write} {
		for _, before := range []bool{false, true} {
			key, other := newKey(), newKey()
			a, field := connect(t, s), map[*script.Mode]string{script.Read: "me", script.Write: "me:write"}[m]
			a.token(other, m.Option) // Redis knows the script
			want(t, a.do("LOCK.RELEASE", other), ":1")
			arm := p.DropAfter
			if before {
				arm = p.DropBefore
			}
			fault := arm(running(m.Acquire, key))
			token := a.token(key, m.Option, "OWNER", "me")
			if fault.Count() != 1 {
				t.Fatal("no reply was lost")
			}
			want(t, count(rdb, key, field), "1")
			fault = arm(running(m.Acquire, key))
			if again := a.token(key, m.Option, "OWNER", "me"); again != token || fault.Count() != 1 {
				t.Fatalf("got token %d, want %d", again, token)
			}
			want(t, count(rdb, key, field), "2")
			if left := readTimeout(rdb, key, "me", 3); left > 0 {
				t.Errorf("a repeated acquire left a third timeout key: %v", left)
			}
			fault = arm(running(m.Release, key))
			want(t, a.do("LOCK.RELEASE", key), ":0")
			want(t, count(rdb, key, field), "1")
			again := arm(running(m.Release, key))
			want(t, a.do("LOCK.RELEASE", key), ":1")
			if fault.Count()+again.Count() != 2 {
				t.Error("no reply was lost")
			}
			wantNothing(t, rdb, key, a)
		}
	}
}

func TestR7LateCopiesOfReadAndWriteDoNothing(t *testing.T) {
	t.Parallel()
	s, straight, _ := faulty(t, Config{})
	rdb, until := straight.Redis.Redis, time.Now().Add(5*time.Second)
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, key, field := connect(t, s), newKey(), map[*script.Mode]string{script.Read: "me",
			script.Write: "me:write"}[m]
		token := a.token(key, m.Option, "OWNER", "me")
		late := a.acquireOf(m, key, "me") // sent, and delayed on its way
		late.Token = token
		a.token(key, m.Option, "OWNER", "me")
		if r := a.send(late); r.Outcome != script.AcquireStale || count(rdb, key, field) != "2" {
			t.Errorf("a late acquire changed the count to %s, and said %v", count(rdb, key, field), r)
		}
		release := func(token, number int64) *script.ReleaseArgs {
			return a.releaseOf(m, key, token, number)
		}
		for _, row := range []struct {
			request *script.ReleaseArgs
			code    int64
			left    string
		}{
			{release(token, 1), script.StaleRequest, "2"},
			{release(token-1, a.carrier.Requests.Add(1)), script.NoSuchHold, "2"},
			{release(token, a.carrier.Requests.Load()), script.CountsRemain, "1"},
			{release(token, a.carrier.Requests.Load()), script.CountsRemain, "1"},
		} {
			answer, err := s.Redis.Release(row.request, until)
			if err != nil || answer != row.code || count(rdb, key, field) != row.left {
				t.Errorf("%+v: got %v %v and count %s, want %d and %s", row.request.End, answer, err,
					count(rdb, key, field), row.code, row.left)
			}
		}
		want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
		wantNothing(t, rdb, key, a)
	}
}

func TestR26UnknownReadAndWriteAreUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout}, slowRetries)
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, c, key := connect(t, s), connect(t, straight), connect(t, straight), newKey()
		p.DropAfter(running(m.Acquire, key), faultproxy.Always())
		c.token(key, "READ") // another reader continues
		want(t, c.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.ACQUIRE", key, m.Option, "TTL", "60000"), "-"+refusal.Unanswered)
		began := time.Now()
		b.token(key, "WRITE", "BLOCK", "0")
		if took := time.Since(began); took > soon {
			t.Errorf("the lock was free only after %v", took)
		}
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, straight.Redis.Redis, key, a, b, c)
	}
}

// TestR26UndoneReaderLeavesTheOthers: An undo ends what its acquire did, and leaves the holds of
// others.
func TestR26UndoneReaderLeavesTheOthers(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout, WatchdogTimeout: 10 * time.Minute})
	a, b, key := connect(t, s), connect(t, straight), newKey()
	other := b.token(key, "READ", "OWNER", "other")
	token := a.token(key, "READ", "OWNER", "me")
	fault := p.DropAfter(running(script.Read.Acquire, key), faultproxy.Always())
	want(t, a.do("LOCK.ACQUIRE", key, "READ", "OWNER", "me"), "-"+refusal.Unanswered)
	want(t, a.do("LOCK.ACQUIRE", key, "READ", "OWNER", "you"), "-"+refusal.Unanswered)
	fault.Disarm()
	eventually(t, 2*time.Second, "they are undone", func() bool {
		got := inRedis(t, straight.Redis.Redis, key)
		return got["me"] == "1" && got["you"] == "" && got["other"] == "1"
	})
	for owner, n := range map[string]int64{"me": token, "other": other} {
		if r, _ := script.ParseRecord(inRedis(t, straight.Redis.Redis, script.RecordsKey(key))[owner]); r.Token != n {
			t.Errorf("%s has token %d, want %d", owner, r.Token, n)
		}
		if left := readTimeout(straight.Redis.Redis, key, owner, 1); left < 5*time.Minute {
			t.Errorf("%s has %v left", owner, left)
		}
	}
	if left := readTimeout(straight.Redis.Redis, key, "me", 2); left > 0 {
		t.Errorf("what was undone has %v left", left)
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
	want(t, b.do("LOCK.RELEASE", key), ":1")
	wantNothing(t, straight.Redis.Redis, key, a, b)
}

func TestR26UnansweredReleaseOfReadAndWrite(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, key := connect(t, s), connect(t, straight), newKey()
		a.token(key, m.Option, "OWNER", "me")
		a.token(key, m.Option, "OWNER", "me")
		for range 2 {
			fault := p.DropBefore(running(m.Release, key), faultproxy.Always())
			want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
			want(t, b.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
			fault.Disarm()
			eventually(t, time.Second, "the release is repeated", func() bool {
				return inRedis(t, straight.Redis.Redis, key)["me"] != "2" &&
					inRedis(t, straight.Redis.Redis, key)["me:write"] != "2"
			})
		}
		eventually(t, 2*time.Second, "the hold is over", func() bool {
			return !exists(t, straight.Redis.Redis, key) && a.carrier.Holds() == 0
		})
		wantNothing(t, straight.Redis.Redis, key, a)
	}
}

func TestR27LossOfReadAndWrite(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s := leash(t, rdb, Config{})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, key := connect(t, s), newKey()
		a.token(key, m.Option)
		rdb.Del(t.Context(), key) // deleted without Leash, as by Java's forceUnlock
		s.Watchdog.CheckAll()
		want(t, receive(t, a.losses, 3*time.Second), key+" gone")
	}
}

func TestR30ReadAndWriteAreReleasedFromAnotherLeash(t *testing.T) {
	t.Parallel()
	s, other, p := faulty(t, Config{})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		a, b, key := connect(t, s), connect(t, other), newKey()
		token := strconv.FormatInt(a.token(key, m.Option, "OWNER", "me"), 10)
		a.token(key, m.Option, "OWNER", "me")
		p.DropAfter(running(m.Revoke, key))
		want(t, b.do("LOCK.RELEASE", key, "TOKEN", "5"), "-"+refusal.NotHeld)
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "you"), "-"+refusal.NotHeld)
		want(t, b.do("LOCK.RELEASE", key, "TOKEN", token), ":0")
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "1"), ":1") // its reply is lost
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "1"), ":1")
		eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.carrier.Holds() == 0 })
		wantNothing(t, other.Redis.Redis, key, a, b)
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
	s, straight, p := faulty(t, Config{})
	a, b, key := connect(t, s), connect(t, s), newKey()
	old := a.token(key, options[0])
	reply := b.await(s, 1, key, options[1], "BLOCK", "0")
	arm := p.DropAfter
	if before {
		arm = p.DropBefore
	}
	m := map[string]*script.Mode{"READ": script.Read, "WRITE": script.Write}[options[0]]
	fault := arm(running(m.Handover, key))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if token := tokenOf(t, receive(t, reply, 3*time.Second)); token <= old || fault.Count() > 1 {
		t.Errorf("got token %d after %d, %d faults", token, old, fault.Count())
	}
	want(t, b.do("LOCK.RELEASE", key), ":1")
	wantNothing(t, straight.Redis.Redis, key, a, b)
	return fault.Count() == 1
}
