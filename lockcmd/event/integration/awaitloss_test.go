package event_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// startAwaitLoss sends AWAITLOSS on a new connection. It returns the connection and a channel with
// the reply, once the command waits.
func startAwaitLoss(t *testing.T, s *lockcmd.Service, key string, token int64, block string) (a *locktest.Client,
	reply <-chan string) {
	t.Helper()
	a = locktest.Connect(t, s)
	out := make(chan string, 1)
	go func() { out <- a.Do("LOCK.AWAITLOSS", key, "BLOCK", block, "TOKEN", strconv.FormatInt(token, 10)) }()
	locktest.Eventually(t, 2*time.Second, "it waits", func() bool { return a.Waits.Load() == 1 })
	return a, out
}

// waitUntilWatched waits until the hold's Leash knows that somebody waits for the end of the hold.
func waitUntilWatched(t *testing.T, s *lockcmd.Service, key string) {
	t.Helper()
	h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
	locktest.Eventually(t, 5*time.Second, "the carrier's Leash knows", func() bool {
		d := h.Details()
		return d.Watched || d.State == hold.Over
	})
}

func TestR27AwaitLossReportsTheReason(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: 9 * time.Second}
		carrier, other, ctx := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg), context.Background()
		tests := make(map[string]func(*testing.T))
		for where, s := range map[string]*lockcmd.Service{"here": carrier, "on another Leash": other} {
			for name, row := range map[string]struct {
				want    string
				options []string
				end     func(t *testing.T, a *locktest.Client, key string)
			}{
				"gone": {"$4\r\ngone", nil, func(_ *testing.T, _ *locktest.Client, key string) { rdb.Del(ctx, key) }},
				"broken": {"$6\r\nbroken", nil, func(t *testing.T, _ *locktest.Client, key string) {
					locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":1")
				}},
				"maxhold": {"$7\r\nmaxhold", []string{"MAXHOLD", "6000"},
					func(*testing.T, *locktest.Client, string) {}},
				"idle": {"$4\r\nidle", []string{"IDLE", "100"}, func(_ *testing.T, a *locktest.Client, _ string) {
					a.GoSilent()
				}},
				"released": {"$-1", nil, func(t *testing.T, a *locktest.Client, key string) {
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				}},
				"closed": {"$-1", nil, func(_ *testing.T, a *locktest.Client,
					_ string) {
					a.Carrier.End(lockcmd.Release)
				}},
				"over": {"$-1", []string{"LEASE", "6000"}, func(*testing.T, *locktest.Client, string) {}},
			} {
				tests[name+" "+where] = func(t *testing.T) {
					a, key := locktest.Connect(t, carrier), locktest.NewKey()
					token := a.Token(append([]string{key}, row.options...)...)
					_, reply := startAwaitLoss(t, s, key, token, "0")
					waitUntilWatched(t, carrier, key)
					row.end(t, a, key)
					if got := locktest.Receive(t, reply, 10*time.Second); got != row.want {
						t.Errorf("%v: got %q, want %q", row.options, got, row.want)
					}
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestAwaitLossFollowsTheHold: AWAITLOSS keeps following a hold that moves to another connection or
// another Leash. The wait ends after BLOCK, and when its client disconnects.
func TestAwaitLossFollowsTheHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, s, key, token, "0")
		locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		select {
		case got := <-reply:
			t.Fatalf("moved, and answered %q", got)
		case <-time.After(100 * time.Millisecond):
		}
		waitUntilWatched(t, other, key)
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":1")
		if got := locktest.Receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
			t.Errorf("got %q", got)
		}

		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.AWAITLOSS", key, "TOKEN", text, "BLOCK", "0"),
			"-"+refusal.NotHeld)
		kept := locktest.NewKey()
		token = locktest.Connect(t, s).Token(kept)
		began := time.Now()
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.AWAITLOSS", kept, "TOKEN", strconv.FormatInt(token, 10),
			"BLOCK", "300"), "$-1")
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("waited for %v, want 300 ms", took)
		}
		c, reply := startAwaitLoss(t, other, kept, token, "0")
		c.Gone()
		locktest.Receive(t, reply, 10*time.Second)
		if n := other.Stats().Waiters; n != 0 {
			t.Errorf("%d waiters have no client", n)
		}
	})
}

// bothPlaces runs a test in which AWAITLOSS waits on the Leash of the hold, and on another one.
func bothPlaces(t *testing.T, test func(t *testing.T, s, other, watching *lockcmd.Service)) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.DefaultBreakTimeout)
		locktest.RunParallel(t, map[string]func(*testing.T){
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
	bothPlaces(t, func(t *testing.T, s, other, watching *lockcmd.Service) {
		key, left := locktest.NewKey(), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, watching, key, token, "0")
		_, over := startAwaitLoss(t, watching, left, a.Token(left, "OWNER", "me", "ONCLOSE", "EXPIRE", "TTL",
			"6000"), "0")
		if watching != s {
			waitUntilWatched(t, s, key)
			waitUntilWatched(t, s, left)
		}
		a.Carrier.End(lockcmd.Release)
		locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		locktest.Want(t, locktest.Receive(t, over, 10*time.Second), "$-1") // not attached again
		select {
		case got := <-reply:
			t.Fatalf("taken over, and answered %q", got)
		default:
		}
		locktest.WantPrefix(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":")
		locktest.Want(t, locktest.Receive(t, reply, 10*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossOfALeftHoldThatIsBroken: The connection ends and leaves the hold to expire. A BREAK
// before that is reported as a loss.
func TestAwaitLossOfALeftHoldThatIsBroken(t *testing.T) {
	t.Parallel()
	bothPlaces(t, func(t *testing.T, s, other, watching *lockcmd.Service) {
		key, a := locktest.NewKey(), locktest.Connect(t, s)
		token := a.Token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		_, reply := startAwaitLoss(t, watching, key, token, "0")
		if watching != s {
			waitUntilWatched(t, s, key)
		}
		a.Carrier.End(lockcmd.Release)
		tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
		locktest.Eventually(t, 5*time.Second, "the tombstone says that it was left", func() bool {
			return locktest.RedisOf(s).Get(t.Context(), tombstone).Val() == event.Left
		})
		locktest.WantPrefix(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":")
		locktest.Want(t, locktest.Receive(t, reply, 20*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossOfALeaseOutlivesTheConnection: A lease continues after its connection has ended, and
// it can still be lost.
func TestAwaitLossOfALeaseOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	bothPlaces(t, func(t *testing.T, s, other, watching *lockcmd.Service) {
		key, runsOut, a := locktest.NewKey(), locktest.NewKey(), locktest.Connect(t, s)
		_, reply := startAwaitLoss(t, watching, key, a.Token(key, "LEASE", "60000"), "0")
		_, over := startAwaitLoss(t, watching, runsOut, a.Token(runsOut, "LEASE", "6000"), "0")
		if watching != s {
			waitUntilWatched(t, s, key)
			waitUntilWatched(t, s, runsOut)
		}
		a.Carrier.End(lockcmd.Release)
		locktest.Want(t, locktest.Receive(t, over, 20*time.Second), "$-1") // over by itself
		locktest.WantPrefix(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":")
		locktest.Want(t, locktest.Receive(t, reply, 20*time.Second), "$6\r\nbroken")
	})
}

// TestAwaitLossFollowsAMoveWithoutAnEvent: The carrier's connection ends before its Leash receives
// the event that the hold has moved.
func TestAwaitLossFollowsAMoveWithoutAnEvent(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{},
			func(s *lockcmd.Service) { s.Events.Own = "nowhere" }),
			locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "OWNER", "me")
		text := strconv.FormatInt(token, 10)
		_, reply := startAwaitLoss(t, s, key, token, "0")
		locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
		a.Carrier.End(lockcmd.Release)
		locktest.Eventually(t, 10*time.Second, "its Leash does not carry it any more", func() bool {
			return s.Stats().Holds == 0
		})
		select {
		case got := <-reply:
			t.Fatalf("moved, and answered %q", got)
		case <-time.After(100 * time.Millisecond):
		}
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":1")
		if got := locktest.Receive(t, reply, 10*time.Second); got != "$6\r\nbroken" {
			t.Errorf("got %q", got)
		}
	})
}

// TestR27AwaitLossAskedForTooLate: A hold is lost and its release is in progress. AWAITLOSS must
// not report an orderly end.
func TestR27AwaitLossAskedForTooLate(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		token := a.Token(key)
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.Redis.Deadline()) {
			t.Fatal("its request lock is taken")
		}
		if !h.Evict(renewal.ReasonBroken) {
			t.Fatal("it is not held")
		}
		// the release of the hold waits for the request lock
		locktest.Deliver(s, event.Text(event.Watched, token, a.Carrier.Name, key))
		reported := h.NoteRemoteWatch()
		h.UnlockRequests()
		if reported {
			t.Error("its release would be reported")
		}
		locktest.Eventually(t, locktest.Soon, "the hold is dropped", func() bool { return s.Stats().Holds == 0 })
	})
}

func TestAwaitLossArguments(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a := locktest.Connect(t, s)
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
		locktest.Want(t, a.Do(append([]string{"LOCK.AWAITLOSS"}, strings.Fields(command)...)...), "-"+reply)
	}
}

// TestR27AwaitLossAfterMoves: The hold has moved and is then lost before the waiting commands have
// seen the move.
func TestR27AwaitLossAfterMoves(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		slow := func(s *lockcmd.Service) { s.Waits.Interval = 5 * time.Second }
		s, other, third := locktest.Start(t, rdb, lockcmd.Config{}, slow),
			locktest.Start(t, rdb, lockcmd.Config{}, slow), locktest.Start(t, rdb, lockcmd.Config{}, slow)
		attach := []string{"LOCK.ATTACH"}
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			watching *lockcmd.Service
			path     []*lockcmd.Service
			by       []string
			end      string
			want     string
		}{
			"broken, seen from the new Leash": {s, []*lockcmd.Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from the old Leash": {other, []*lockcmd.Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, seen from a third Leash": {third, []*lockcmd.Service{s}, attach, "break", "$6\r\nbroken"},
			"broken, moved on its own Leash":  {s, []*lockcmd.Service{other}, attach, "break", "$6\r\nbroken"},
			"broken, moved twice":             {other, []*lockcmd.Service{s, third}, attach, "break", "$6\r\nbroken"},
			"broken, moved there and back":    {other, []*lockcmd.Service{s, other}, attach, "break", "$6\r\nbroken"},
			"broken, moved by its ID": {third, []*lockcmd.Service{s}, []string{"LOCK.ACQUIRE", "ID", "r"},
				"break", "$6\r\nbroken"},
			"held for too long":                 {third, []*lockcmd.Service{s}, attach, "maxhold", "$7\r\nmaxhold"},
			"deleted":                           {third, []*lockcmd.Service{s}, attach, "delete", "$4\r\ngone"},
			"released":                          {third, []*lockcmd.Service{s}, attach, "release", "$-1"},
			"released past its connection":      {third, []*lockcmd.Service{s}, attach, "release elsewhere", "$-1"},
			"released, moved on its own Leash":  {s, []*lockcmd.Service{other}, attach, "release", "$-1"},
			"released, and its connection ends": {third, []*lockcmd.Service{s}, attach, "close", "$-1"},
		} {
			tests[name] = func(t *testing.T) {
				a, key := locktest.Connect(t, other), locktest.NewKey()
				ask := []string{key, "OWNER", "me", "TTL", "30000"}
				if row.by[0] == "LOCK.ACQUIRE" {
					ask = append(ask, row.by[1:]...)
				}
				if row.end == "maxhold" {
					ask = append(ask, "MAXHOLD", "6000")
				}
				token := a.Token(ask...)
				text := strconv.FormatInt(token, 10)
				_, reply := startAwaitLoss(t, row.watching, key, token, "0")
				if row.watching != other {
					waitUntilWatched(t, other, key)
				}
				for _, to := range row.path {
					a = locktest.Connect(t, to)
					if row.by[0] == "LOCK.ACQUIRE" {
						locktest.Want(t, a.Do(append([]string{"LOCK.ACQUIRE"}, ask...)...), ":"+text)
					} else {
						a.Attach(key, "me", token)
					}
				}
				switch row.end {
				case "break":
					locktest.Want(t, locktest.Connect(t, third).Do("LOCK.BREAK", key), ":1")
				case "delete":
					rdb.Del(t.Context(), key)
					row.path[len(row.path)-1].Watchdog.CheckAll()
				case "release":
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				case "release elsewhere":
					locktest.Want(t, locktest.Connect(t, third).Do("LOCK.RELEASE", key, "TOKEN", text), ":1")
				case "close":
					a.Carrier.End(lockcmd.Release)
				}
				if got := locktest.Receive(t, reply, 10*time.Second); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestR27AwaitLossOfAnExtendedLease: Another Leash extended the lease. That does not say how the
// lease ended.
func TestR27AwaitLossOfAnExtendedLease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) {
				s.Waits.Interval = 5 * time.Second
			})
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			lease string
			end   func(t *testing.T, key string)
			want  string
		}{
			"broken": {"60000", func(t *testing.T, key string) {
				locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":1")
			}, "$6\r\nbroken"},
			"deleted": {"60000", func(t *testing.T, key string) { rdb.Del(t.Context(), key) }, "$4\r\ngone"},
			"over":    {"500", func(*testing.T, string) {}, "$-1"},
		} {
			tests[name] = func(t *testing.T) {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				token := a.Token(key, "LEASE", "6000")
				_, reply := startAwaitLoss(t, other, key, token, "0")
				waitUntilWatched(t, s, key)
				locktest.Want(t, locktest.Connect(t, other).Do("LOCK.EXTEND", key, row.lease, "TOKEN",
					strconv.FormatInt(token, 10)),
					":"+row.lease)
				row.end(t, key)
				if got := locktest.Receive(t, reply, 20*time.Second); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestR25AwaitLossOfAnOverwrittenKey: The key now has a value of another type, so there is no hold.
func TestR25AwaitLossOfAnOverwrittenKey(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		text := locktest.NewKey()
		rdb.Set(t.Context(), text, "x", 0)
		for _, block := range []string{"0", "50"} {
			locktest.WantPrefix(t, locktest.Connect(t, s).Do("LOCK.AWAITLOSS", text, "TOKEN", "1", "BLOCK", block),
				"-WRONGTYPE ")
		}
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"", "READ", "WRITE"} {
			for where, watching := range map[string]*lockcmd.Service{"here": s, "on another Leash": other} {
				tests[mode+" "+where] = func(t *testing.T) {
					a, key := locktest.Connect(t, s), locktest.NewKey()
					token := a.Token(append([]string{key}, strings.Fields(mode)...)...)
					_, reply := startAwaitLoss(t, watching, key, token, "0")
					if watching != s {
						waitUntilWatched(t, s, key)
					}
					rdb.Set(t.Context(), key, "x", 0)
					s.Watchdog.CheckAll()
					if got := locktest.Receive(t, reply, 10*time.Second); got != "$4\r\ngone" {
						t.Errorf("got %q", got)
					}
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}
