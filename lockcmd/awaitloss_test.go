package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// awaiting sends AWAITLOSS on a connection of its own, and returns where the reply comes when it
// waits.
func awaiting(t *testing.T, s *Service, key string, token int64, block string) (a *conn, reply <-chan string) {
	t.Helper()
	a = connect(t, s)
	out := make(chan string, 1)
	go func() { out <- a.do("LOCK.AWAITLOSS", key, "BLOCK", block, "TOKEN", strconv.FormatInt(token, 10)) }()
	eventually(t, 2*time.Second, "it waits", func() bool { return a.waits.Load() == 1 })
	return a, out
}

// heeded waits until the hold's Leash has been asked, from another, to say how it ends.
func heeded(t *testing.T, s *Service, key string) {
	t.Helper()
	h := s.find(lockID{0, key}, func(*hold) bool { return true })
	eventually(t, 5*time.Second, "the carrier's Leash knows", func() bool {
		h.carrier.mu.Lock()
		defer h.carrier.mu.Unlock()
		return h.remoteWatch != notWatched || h.state == over
	})
}

func TestR27AwaitLossTellsTheReason(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := Config{WatchdogTimeout: 3 * time.Second}
		carrier, other, ctx := leash(t, rdb, cfg), leash(t, rdb, cfg), context.Background()
		tests := make(map[string]func(*testing.T))
		for where, s := range map[string]*Service{"here": carrier, "on another Leash": other} {
			for name, row := range map[string]struct {
				want    string
				options []string
				end     func(t *testing.T, a *conn, key string)
			}{
				"gone":     {"$4\r\ngone", nil, func(_ *testing.T, _ *conn, key string) { rdb.Del(ctx, key) }},
				"broken":   {"$6\r\nbroken", nil, func(t *testing.T, _ *conn, key string) { want(t, connect(t, s).do("LOCK.BREAK", key), ":1") }},
				"maxhold":  {"$7\r\nmaxhold", []string{"MAXHOLD", "2500"}, func(*testing.T, *conn, string) {}},
				"idle":     {"$4\r\nidle", []string{"IDLE", "100"}, func(_ *testing.T, a *conn, _ string) { a.goSilent() }},
				"released": {"$-1", nil, func(t *testing.T, a *conn, key string) { want(t, a.do("LOCK.RELEASE", key), ":1") }},
				"closed":   {"$-1", nil, func(_ *testing.T, a *conn, _ string) { a.carrier.End(Release) }},
				"over":     {"$-1", []string{"LEASE", "2500"}, func(*testing.T, *conn, string) {}},
			} {
				tests[name+" "+where] = func(t *testing.T) {
					a, key := connect(t, carrier), newKey()
					token := a.token(append([]string{key}, row.options...)...)
					_, reply := awaiting(t, s, key, token, "0")
					if s != carrier {
						heeded(t, carrier, key)
					}
					row.end(t, a, key)
					if got := receive(t, reply, 10*time.Second); got != row.want {
						t.Errorf("%v: got %q, want %q", row.options, got, row.want)
					}
				}
			}
		}
		atOnce(t, tests)
	})
}

// TestAwaitLossFollowsTheHold: to another connection and another Leash; and it ends with its time,
// and with its client.
func TestAwaitLossFollowsTheHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		text := strconv.FormatInt(token, 10)
		_, reply := awaiting(t, s, key, token, "0")
		want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		select {
		case got := <-reply:
			t.Fatalf("moved, and answered %q", got)
		case <-time.After(100 * time.Millisecond):
		}
		heeded(t, other, key)
		want(t, connect(t, other).do("LOCK.BREAK", key), ":1")
		if got := receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
			t.Errorf("got %q", got)
		}

		want(t, connect(t, s).do("LOCK.AWAITLOSS", key, "TOKEN", text, "BLOCK", "0"), "-"+msgNotHeld)
		kept := newKey()
		token = connect(t, s).token(kept)
		began := time.Now()
		want(t, connect(t, s).do("LOCK.AWAITLOSS", kept, "TOKEN", strconv.FormatInt(token, 10), "BLOCK", "300"), "$-1")
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("waited for %v, want 300 ms", took)
		}
		c, reply := awaiting(t, other, kept, token, "0")
		c.gone()
		receive(t, reply, 10*time.Second)
		if n := other.Stats().Waiters; n != 0 {
			t.Errorf("%d wait, whose client is gone", n)
		}
	})
}

// TestAwaitLossOutlivesTheConnection: a hold that its connection leaves to run out has not ended.
// Its owner takes it over and it is lost then, or nobody does and it ends as it should.
func TestAwaitLossOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for where, watching := range map[string]*Service{"here": s, "on another Leash": other} {
			key, left := newKey(), newKey()
			a, b := connect(t, s), connect(t, s)
			token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
			text := strconv.FormatInt(token, 10)
			_, reply := awaiting(t, watching, key, token, "0")
			_, over := awaiting(t, watching, left, a.token(left, "OWNER", "me", "ONCLOSE", "EXPIRE", "TTL", "1500"), "0")
			if watching != s {
				heeded(t, s, key)
				heeded(t, s, left)
			}
			a.carrier.End(Release)
			want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
			if got := receive(t, over, 10*time.Second); got != "$-1" {
				t.Errorf("%s: nobody took it over: got %q", where, got)
			}
			select {
			case got := <-reply:
				t.Errorf("%s: taken over, and answered %q", where, got)
				continue
			default:
			}
			want(t, connect(t, other).do("LOCK.BREAK", key), ":1")
			if got := receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
				t.Errorf("%s: got %q", where, got)
			}
		}
	})
}

// TestAwaitLossOfALeftHoldThatIsBroken: its connection has left it to run out, and it is broken
// before it has.
func TestAwaitLossOfALeftHoldThatIsBroken(t *testing.T) {
	t.Parallel() // it waits most of the time
	takesLong(t)
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for where, watching := range map[string]*Service{"here": s, "on another Leash": other} {
			key := newKey()
			a := connect(t, s)
			token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
			_, reply := awaiting(t, watching, key, token, "0")
			if watching != s {
				heeded(t, s, key)
			}
			a.carrier.End(Release)
			tombstone := tombstoneKey(key, token, a.carrier.name)
			eventually(t, 5*time.Second, "the tombstone says that it was left", func() bool {
				return rdb.Get(t.Context(), tombstone).Val() == leftText
			})
			wantPrefix(t, connect(t, other).do("LOCK.BREAK", key), ":")
			if got := receive(t, reply, 20*time.Second); got != "$6\r\nbroken" {
				t.Errorf("%s: got %q", where, got)
			}
		}
	})
}

// TestAwaitLossOfALeaseOutlivesTheConnection: the lease goes on, and can be lost.
func TestAwaitLossOfALeaseOutlivesTheConnection(t *testing.T) {
	t.Parallel() // it waits most of the time
	takesLong(t)
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for where, watching := range map[string]*Service{"here": s, "on another Leash": other} {
			key, runsOut := newKey(), newKey()
			a := connect(t, s)
			_, reply := awaiting(t, watching, key, a.token(key, "LEASE", "60000"), "0")
			_, over := awaiting(t, watching, runsOut, a.token(runsOut, "LEASE", "3000"), "0")
			if watching != s {
				heeded(t, s, key)
				heeded(t, s, runsOut)
			}
			a.carrier.End(Release)
			if got := receive(t, over, 20*time.Second); got != "$-1" {
				t.Errorf("%s: it was over by itself: got %q", where, got)
			}
			wantPrefix(t, connect(t, other).do("LOCK.BREAK", key), ":")
			if got := receive(t, reply, 20*time.Second); got != "$6\r\nbroken" {
				t.Errorf("%s: got %q", where, got)
			}
		}
	})
}

// TestAwaitLossFollowsUnheardMove: the connection that carried a hold ends before its Leash hears
// that the hold hangs elsewhere.
func TestAwaitLossFollowsAMoveWithoutAnEvent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, func(s *Service) { s.subscriber.eventChannel = "nowhere" }), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me")
		text := strconv.FormatInt(token, 10)
		_, reply := awaiting(t, s, key, token, "0")
		want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		a.carrier.End(Release)
		eventually(t, 10*time.Second, "its Leash has nothing to do with it any more", func() bool { return s.Stats().Holds == 0 })
		select {
		case got := <-reply:
			t.Fatalf("moved, and answered %q", got)
		case <-time.After(100 * time.Millisecond):
		}
		want(t, connect(t, other).do("LOCK.BREAK", key), ":1")
		if got := receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
			t.Errorf("got %q", got)
		}
	})
}

// TestR27AwaitLossAskedForTooLate: a hold that is lost, and is being released, is not said to have
// ended as it should.
func TestR27AwaitLossAskedForTooLate(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		token := a.token(key)
		h := s.find(lockID{0, key}, func(*hold) bool { return true })
		if !h.lockRequests(s.deadline()) {
			t.Fatal("its gate is taken")
		}
		if !h.evict(renewal.ReasonBroken) {
			t.Fatal("it is not held")
		}
		// while its release waits for the request lock
		s.receiveEvent(holdEventText(watchedEvent, token, a.carrier.name, key))
		h.carrier.mu.Lock()
		watch := h.remoteWatch
		h.carrier.mu.Unlock()
		h.unlockRequests()
		if watch == watched {
			t.Error("its release would be told")
		}
		eventually(t, soon, "it is forgotten", func() bool { return s.Stats().Holds == 0 })
	})
}

func TestAwaitLossArguments(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a := connect(t, s)
	for command, reply := range map[string]string{
		"k":                     "ERR wrong number of arguments for 'lock.awaitloss' command",
		"k TOKEN 1 BLOCK":       "ERR wrong number of arguments for 'lock.awaitloss' command",
		"k TOKEN 1 TOKEN 1":     "ERR syntax error",
		"k TOKEN x BLOCK 1":     "ERR value is not an integer or out of range",
		"k TOKEN 1 BLOCK -1":    "ERR timeout is negative",
		"k TOKEN 1 BLOCK x":     "ERR timeout is not an integer or out of range",
		"k OWNER me BLOCK 1":    "ERR syntax error",
		"free TOKEN 1 BLOCK 50": msgNotHeld,
	} {
		want(t, a.do(append([]string{"LOCK.AWAITLOSS"}, strings.Fields(command)...)...), "-"+reply)
	}
}

// TestR27AwaitLossAfterMoves: a hold that is lost before those who wait for that have seen where it
// was moved to.
func TestR27AwaitLossAfterMoves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		slow := func(s *Service) { s.attemptInterval = 5 * time.Second }
		s, other, third := leash(t, rdb, Config{}, slow), leash(t, rdb, Config{}, slow), leash(t, rdb, Config{}, slow)
		attach := []string{"LOCK.ATTACH"}
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			watching *Service
			path     []*Service
			by       []string
			end      string
			want     string
		}{
			"broken, seen from the new Leash":   {s, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from the old Leash":   {other, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from a third Leash":   {third, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, moved on its own Leash":    {s, []*Service{other}, attach, "break", "$6\r\nbroken"},
			"broken, moved twice":               {other, []*Service{s, third}, attach, "break", "$6\r\nbroken"},
			"broken, moved there and back":      {other, []*Service{s, other}, attach, "break", "$6\r\nbroken"},
			"broken, moved by its ID":           {third, []*Service{s}, []string{"LOCK.ACQUIRE", "ID", "r"}, "break", "$6\r\nbroken"},
			"held for too long":                 {third, []*Service{s}, attach, "maxhold", "$7\r\nmaxhold"},
			"deleted":                           {third, []*Service{s}, attach, "delete", "$4\r\ngone"},
			"released":                          {third, []*Service{s}, attach, "release", "$-1"},
			"released past its connection":      {third, []*Service{s}, attach, "release elsewhere", "$-1"},
			"released, moved on its own Leash":  {s, []*Service{other}, attach, "release", "$-1"},
			"released, and its connection ends": {third, []*Service{s}, attach, "close", "$-1"},
		} {
			tests[name] = func(t *testing.T) {
				a, key := connect(t, other), newKey()
				ask := []string{key, "OWNER", "me", "TTL", "30000"}
				if row.by[0] == "LOCK.ACQUIRE" {
					ask = append(ask, row.by[1:]...)
				}
				if row.end == "maxhold" {
					ask = append(ask, "MAXHOLD", "2000")
				}
				token := a.token(ask...)
				text := strconv.FormatInt(token, 10)
				_, reply := awaiting(t, row.watching, key, token, "0")
				if row.watching != other {
					heeded(t, other, key)
				}
				for _, to := range row.path {
					a = connect(t, to)
					if row.by[0] == "LOCK.ACQUIRE" {
						want(t, a.do(append([]string{"LOCK.ACQUIRE"}, ask...)...), ":"+text)
					} else {
						a.attach(key, "me", token)
					}
				}
				switch row.end {
				case "break":
					want(t, connect(t, third).do("LOCK.BREAK", key), ":1")
				case "delete":
					rdb.Del(t.Context(), key)
					row.path[len(row.path)-1].watchdog.CheckAll()
				case "release":
					want(t, a.do("LOCK.RELEASE", key), ":1")
				case "release elsewhere":
					want(t, connect(t, third).do("LOCK.RELEASE", key, "TOKEN", text), ":1")
				case "close":
					a.carrier.End(Release)
				}
				if got := receive(t, reply, 10*time.Second); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			}
		}
		atOnce(t, tests)
	})
}

// TestR27AwaitLossOfALeaseSetAnew: that another Leash has extended a lease does not say how it
// ended.
func TestR27AwaitLossOfALeaseSetAnew(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{}, func(s *Service) { s.attemptInterval = 5 * time.Second })
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			lease string
			end   func(t *testing.T, key string)
			want  string
		}{
			"broken":  {"60000", func(t *testing.T, key string) { want(t, connect(t, s).do("LOCK.BREAK", key), ":1") }, "$6\r\nbroken"},
			"deleted": {"60000", func(t *testing.T, key string) { rdb.Del(t.Context(), key) }, "$4\r\ngone"},
			"over":    {"500", func(*testing.T, string) {}, "$-1"},
		} {
			tests[name] = func(t *testing.T) {
				a, key := connect(t, s), newKey()
				token := a.token(key, "LEASE", "6000")
				_, reply := awaiting(t, other, key, token, "0")
				heeded(t, s, key)
				want(t, connect(t, other).do("LOCK.EXTEND", key, row.lease, "TOKEN", strconv.FormatInt(token, 10)), ":"+row.lease)
				row.end(t, key)
				if got := receive(t, reply, 20*time.Second); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			}
		}
		atOnce(t, tests)
	})
}

// TestR25AwaitLossOfAnOverwrittenKey: a key of another type has no hold.
func TestR25AwaitLossOfAnOverwrittenKey(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		text := newKey()
		rdb.Set(t.Context(), text, "x", 0)
		for _, block := range []string{"0", "50"} {
			wantPrefix(t, connect(t, s).do("LOCK.AWAITLOSS", text, "TOKEN", "1", "BLOCK", block), "-WRONGTYPE ")
		}
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"", "READ", "WRITE"} {
			for where, watching := range map[string]*Service{"here": s, "on another Leash": other} {
				tests[mode+" "+where] = func(t *testing.T) {
					a, key := connect(t, s), newKey()
					token := a.token(append([]string{key}, strings.Fields(mode)...)...)
					_, reply := awaiting(t, watching, key, token, "0")
					if watching != s {
						heeded(t, s, key)
					}
					rdb.Set(t.Context(), key, "x", 0)
					s.watchdog.CheckAll()
					if got := receive(t, reply, 10*time.Second); got != "$4\r\ngone" {
						t.Errorf("got %q", got)
					}
				}
			}
		}
		atOnce(t, tests)
	})
}
