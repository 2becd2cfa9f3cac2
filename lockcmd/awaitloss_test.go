package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// startAwaitLoss sends AWAITLOSS on a new connection. It returns the connection and a channel with
// the reply, once the command waits.
func startAwaitLoss(t *testing.T, s *Service, key string, token int64, block string) (a *conn, reply <-chan string) {
	t.Helper()
	a = connect(t, s)
	out := make(chan string, 1)
	go func() { out <- a.do("LOCK.AWAITLOSS", key, "BLOCK", block, "TOKEN", strconv.FormatInt(token, 10)) }()
	eventually(t, 2*time.Second, "it waits", func() bool { return a.waits.Load() == 1 })
	return a, out
}

// waitUntilWatched waits until the hold's Leash knows that somebody waits for the end of the hold.
func waitUntilWatched(t *testing.T, s *Service, key string) {
	t.Helper()
	h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
	eventually(t, 5*time.Second, "the carrier's Leash knows", func() bool {
		d := h.Details()
		return d.Watched || d.State == hold.Over
	})
}

func TestR27AwaitLossReportsTheReason(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := Config{WatchdogTimeout: 9 * time.Second}
		carrier, other, ctx := leash(t, rdb, cfg), leash(t, rdb, cfg), context.Background()
		tests := make(map[string]func(*testing.T))
		for where, s := range map[string]*Service{"here": carrier, "on another Leash": other} {
			for name, row := range map[string]struct {
				want    string
				options []string
				end     func(t *testing.T, a *conn, key string)
			}{
				"gone": {"$4\r\ngone", nil, func(_ *testing.T, _ *conn, key string) { rdb.Del(ctx, key) }},
				"broken": {"$6\r\nbroken", nil, func(t *testing.T, _ *conn, key string) {
					want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
				}},
				"maxhold": {"$7\r\nmaxhold", []string{"MAXHOLD", "6000"}, func(*testing.T, *conn, string) {}},
				"idle": {"$4\r\nidle", []string{"IDLE", "100"}, func(_ *testing.T, a *conn, _ string) {
					a.goSilent()
				}},
				"released": {"$-1", nil, func(t *testing.T, a *conn, key string) {
					want(t, a.do("LOCK.RELEASE", key), ":1")
				}},
				"closed": {"$-1", nil, func(_ *testing.T, a *conn, _ string) { a.carrier.End(Release) }},
				"over":   {"$-1", []string{"LEASE", "6000"}, func(*testing.T, *conn, string) {}},
			} {
				tests[name+" "+where] = func(t *testing.T) {
					a, key := connect(t, carrier), newKey()
					token := a.token(append([]string{key}, row.options...)...)
					_, reply := startAwaitLoss(t, s, key, token, "0")
					waitUntilWatched(t, carrier, key)
					row.end(t, a, key)
					if got := receive(t, reply, 10*time.Second); got != row.want {
						t.Errorf("%v: got %q, want %q", row.options, got, row.want)
					}
				}
			}
		}
		runParallel(t, tests)
	})
}

// TestAwaitLossFollowsTheHold: AWAITLOSS keeps following a hold that moves to another connection or
// another Leash. The wait ends after BLOCK, and when its client disconnects.
func TestAwaitLossFollowsTheHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, s, key, token, "0")
		want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		select {
		case got := <-reply:
			t.Fatalf("moved, and answered %q", got)
		case <-time.After(100 * time.Millisecond):
		}
		waitUntilWatched(t, other, key)
		want(t, connect(t, other).do("LOCK.BREAK", key), ":1")
		if got := receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
			t.Errorf("got %q", got)
		}

		want(t, connect(t, s).do("LOCK.AWAITLOSS", key, "TOKEN", text, "BLOCK", "0"), "-"+refusal.NotHeld)
		kept := newKey()
		token = connect(t, s).token(kept)
		began := time.Now()
		want(t, connect(t, s).do("LOCK.AWAITLOSS", kept, "TOKEN", strconv.FormatInt(token, 10), "BLOCK", "300"), "$-1")
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("waited for %v, want 300 ms", took)
		}
		c, reply := startAwaitLoss(t, other, kept, token, "0")
		c.gone()
		receive(t, reply, 10*time.Second)
		if n := other.Stats().Waiters; n != 0 {
			t.Errorf("%d waiters have no client", n)
		}
	})
}

// bothPlaces runs a test in which AWAITLOSS waits on the Leash of the hold, and on another one.
func bothPlaces(t *testing.T, test func(t *testing.T, s, other, watching *Service)) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{}, defaultBreakTimeout)
		runParallel(t, map[string]func(*testing.T){
			"here":             func(t *testing.T) { test(t, s, other, s) },
			"on another Leash": func(t *testing.T) { test(t, s, other, other) },
		})
	})
}

// TestAwaitLossOutlivesTheConnection: A hold with ONCLOSE EXPIRE outlives its connection. AWAITLOSS
// reports a loss after its owner attached it again. It returns nil when nobody attaches it and it
// expires.
func TestAwaitLossOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	bothPlaces(t, func(t *testing.T, s, other, watching *Service) {
		key, left := newKey(), newKey()
		a, b := connect(t, s), connect(t, s)
		token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, watching, key, token, "0")
		_, over := startAwaitLoss(t, watching, left, a.token(left, "OWNER", "me", "ONCLOSE", "EXPIRE", "TTL",
			"6000"), "0")
		if watching != s {
			waitUntilWatched(t, s, key)
			waitUntilWatched(t, s, left)
		}
		a.carrier.End(Release)
		want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		want(t, receive(t, over, 10*time.Second), "$-1") // not attached again
		select {
		case got := <-reply:
			t.Fatalf("taken over, and answered %q", got)
		default:
		}
		want(t, connect(t, other).do("LOCK.BREAK", key), ":1")
		want(t, receive(t, reply, 10*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossOfALeftHoldThatIsBroken: The connection ends and leaves the hold to expire. A BREAK
// before that is reported as a loss.
func TestAwaitLossOfALeftHoldThatIsBroken(t *testing.T) {
	t.Parallel()
	bothPlaces(t, func(t *testing.T, s, other, watching *Service) {
		key, a := newKey(), connect(t, s)
		token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		_, reply := startAwaitLoss(t, watching, key, token, "0")
		if watching != s {
			waitUntilWatched(t, s, key)
		}
		a.carrier.End(Release)
		tombstone := script.TombstoneKey(key, token, a.carrier.Name)
		eventually(t, 5*time.Second, "the tombstone says that it was left", func() bool {
			return s.Redis.Redis.Get(t.Context(), tombstone).Val() == event.Left
		})
		wantPrefix(t, connect(t, other).do("LOCK.BREAK", key), ":")
		want(t, receive(t, reply, 20*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossOfALeaseOutlivesTheConnection: A lease continues after its connection has ended, and
// it can still be lost.
func TestAwaitLossOfALeaseOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	bothPlaces(t, func(t *testing.T, s, other, watching *Service) {
		key, runsOut, a := newKey(), newKey(), connect(t, s)
		_, reply := startAwaitLoss(t, watching, key, a.token(key, "LEASE", "60000"), "0")
		_, over := startAwaitLoss(t, watching, runsOut, a.token(runsOut, "LEASE", "6000"), "0")
		if watching != s {
			waitUntilWatched(t, s, key)
			waitUntilWatched(t, s, runsOut)
		}
		a.carrier.End(Release)
		want(t, receive(t, over, 20*time.Second), "$-1") // over by itself
		wantPrefix(t, connect(t, other).do("LOCK.BREAK", key), ":")
		want(t, receive(t, reply, 20*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossFollowsAMoveWithoutAnEvent: The carrier's connection ends before its Leash receives
// the event that the hold has moved.
func TestAwaitLossFollowsAMoveWithoutAnEvent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, func(s *Service) { s.Events.Own = "nowhere" }),
			leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, s, key, token, "0")
		want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		a.carrier.End(Release)
		eventually(t, 10*time.Second, "its Leash does not carry it any more", func() bool {
			return s.Stats().Holds == 0
		})
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

// TestR27AwaitLossAskedForTooLate: A hold is lost and its release is in progress. AWAITLOSS must
// not report an orderly end.
func TestR27AwaitLossAskedForTooLate(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		token := a.token(key)
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("its request lock is taken")
		}
		if !h.Evict(renewal.ReasonBroken) {
			t.Fatal("it is not held")
		}
		// the release of the hold waits for the request lock
		s.receive(event.Text(event.Watched, token, a.carrier.Name, key))
		reported := h.NoteRemoteWatch()
		h.UnlockRequests()
		if reported {
			t.Error("its release would be reported")
		}
		eventually(t, soon, "the hold is dropped", func() bool { return s.Stats().Holds == 0 })
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
		"free TOKEN 1 BLOCK 50": refusal.NotHeld,
	} {
		want(t, a.do(append([]string{"LOCK.AWAITLOSS"}, strings.Fields(command)...)...), "-"+reply)
	}
}

// TestR27AwaitLossAfterMoves: The hold has moved and is then lost before the waiting commands have
// seen the move.
func TestR27AwaitLossAfterMoves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		slow := func(s *Service) { s.Waits.Interval = 5 * time.Second }
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
			"broken, seen from the new Leash": {s, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from the old Leash": {other, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from a third Leash": {third, []*Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, moved on its own Leash":  {s, []*Service{other}, attach, "break", "$6\r\nbroken"},
			"broken, moved twice":             {other, []*Service{s, third}, attach, "break", "$6\r\nbroken"},
			"broken, moved there and back":    {other, []*Service{s, other}, attach, "break", "$6\r\nbroken"},
			"broken, moved by its ID": {third, []*Service{s}, []string{"LOCK.ACQUIRE", "ID", "r"},
				"break", "$6\r\nbroken"},
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
					ask = append(ask, "MAXHOLD", "6000")
				}
				token := a.token(ask...)
				text := strconv.FormatInt(token, 10)
				_, reply := startAwaitLoss(t, row.watching, key, token, "0")
				if row.watching != other {
					waitUntilWatched(t, other, key)
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
					row.path[len(row.path)-1].Watchdog.CheckAll()
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
		runParallel(t, tests)
	})
}

// TestR27AwaitLossOfAnExtendedLease: Another Leash extended the lease. That does not say how the
// lease ended.
func TestR27AwaitLossOfAnExtendedLease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{}, func(s *Service) {
			s.Waits.Interval = 5 * time.Second
		})
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			lease string
			end   func(t *testing.T, key string)
			want  string
		}{
			"broken": {"60000", func(t *testing.T, key string) {
				want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
			}, "$6\r\nbroken"},
			"deleted": {"60000", func(t *testing.T, key string) { rdb.Del(t.Context(), key) }, "$4\r\ngone"},
			"over":    {"500", func(*testing.T, string) {}, "$-1"},
		} {
			tests[name] = func(t *testing.T) {
				a, key := connect(t, s), newKey()
				token := a.token(key, "LEASE", "6000")
				_, reply := startAwaitLoss(t, other, key, token, "0")
				waitUntilWatched(t, s, key)
				want(t, connect(t, other).do("LOCK.EXTEND", key, row.lease, "TOKEN", strconv.FormatInt(token, 10)),
					":"+row.lease)
				row.end(t, key)
				if got := receive(t, reply, 20*time.Second); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			}
		}
		runParallel(t, tests)
	})
}

// TestR25AwaitLossOfAnOverwrittenKey: The key now has a value of another type, so there is no hold.
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
					_, reply := startAwaitLoss(t, watching, key, token, "0")
					if watching != s {
						waitUntilWatched(t, s, key)
					}
					rdb.Set(t.Context(), key, "x", 0)
					s.Watchdog.CheckAll()
					if got := receive(t, reply, 10*time.Second); got != "$4\r\ngone" {
						t.Errorf("got %q", got)
					}
				}
			}
		}
		runParallel(t, tests)
	})
}
