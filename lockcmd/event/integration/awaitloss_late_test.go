package event_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR27AwaitLossRequestArrivesTooLate: AWAITLOSS on another Leash has seen the hold. Its request
// to report the end arrives after the end.
func TestR27AwaitLossRequestArrivesTooLate(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		carrier, other, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			context.Background()
		tests := make(map[string]func(*testing.T))
		released := func(t *testing.T, a *locktest.Client,
			key string) {
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
		ends := func(how lockcmd.Ending) func(*testing.T, *locktest.Client, string) {
			return func(_ *testing.T, a *locktest.Client, _ string) { a.Carrier.End(how) }
		}
		broken := func(reply string) func(*testing.T, *locktest.Client, string) {
			return func(t *testing.T, _ *locktest.Client, key string) {
				locktest.Want(t, locktest.Connect(t, carrier).Do("LOCK.BREAK", key), reply)
			}
		}
		deleted := func(_ *testing.T, _ *locktest.Client, key string) { rdb.Del(ctx, key) }
		extended := func(t *testing.T, a *locktest.Client, key string) {
			locktest.Want(t, a.Do("LOCK.EXTEND", key, "60000"), ":60000")
		}
		for name, row := range map[string]struct {
			want    string
			options string
			ends    []func(t *testing.T, a *locktest.Client, key string)
			stays   bool // for a while
		}{
			"released":     {want: "", ends: list(released)},
			"closed":       {want: "", ends: list(ends(lockcmd.Release))},
			"left":         {want: "", options: "TTL 6000", ends: list(ends(lockcmd.Expire)), stays: true},
			"over":         {want: "", options: "LEASE 6000"},
			"maxhold":      {want: hold.ReasonMaxHold, options: "MAXHOLD 6000"},
			"maxhold kept": {want: hold.ReasonMaxHold, options: "MAXHOLD 6000 ONLOSS ERROR"},
			"left, till its maxhold": {want: "", options: "MAXHOLD 6000", ends: list(ends(lockcmd.Expire)),
				stays: true},
			"left, and over by its maxhold": {want: "", options: "MAXHOLD 6000", ends: list(ends(lockcmd.Expire))},
			"broken":                        {want: renewal.ReasonBroken, ends: list(broken(":1"))},
			"broken when left": {want: renewal.ReasonBroken,
				ends: list(ends(lockcmd.Expire), broken(":2"))},
			"gone":            {want: renewal.ReasonGone, ends: list(deleted)},
			"gone and closed": {want: renewal.ReasonGone, ends: list(deleted, ends(lockcmd.Release))},
			"gone and left":   {want: renewal.ReasonGone, ends: list(deleted, ends(lockcmd.Expire))},
			"a lease, gone when left": {want: renewal.ReasonGone, options: "LEASE 60000",
				ends: list(ends(lockcmd.Release), deleted)},
			"a lease set anew, gone when left": {want: renewal.ReasonGone, options: "LEASE 30000",
				ends: list(extended, ends(lockcmd.Release), deleted)},
		} {
			if name == "over" && strings.HasSuffix(t.Name(), "/embedded") {
				continue // on a busy machine its clock is late, and it then ends a lease early
			}
			tests[name] = func(t *testing.T) {
				a, key := locktest.Connect(t, carrier), locktest.NewKey()
				token := a.Token(append([]string{key}, strings.Fields(row.options)...)...)
				w := other.Events.LossWait(locktest.LockOf(key), token)
				info, err := other.Redis.Inspect(w.Lock, other.Redis.Deadline())
				f, ok := info.Find(token)
				if err != nil || !ok {
					t.Fatalf("the hold is not seen: %v", err)
				}
				w.Seen = &f
				if row.want != renewal.ReasonGone {
					w.Interval = locktest.Soon // a busy Leash may answer late
				}
				for _, end := range row.ends {
					end(t, a, key)
				}
				if !row.stays {
					locktest.Eventually(t, locktest.Soon, "it is not there any more", func() bool {
						return rdb.Exists(ctx, key).Val() == 0
					})
				}
				ctx, cancel := context.WithTimeout(ctx, locktest.Soon)
				defer cancel()
				reason, err := w.Run(ctx)
				if err != nil || reason != row.want || ctx.Err() != nil {
					t.Errorf("got %q, %v, %v, want %q", reason, err, ctx.Err(), row.want)
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

func list[T any](all ...T) []T { return all }

// newLeashID returns the ID of a Leash that does not exist.
func newLeashID() string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", locktest.LastConn.Add(1))
}

// TestR27AwaitLossAsksAgain: AWAITLOSS asks the Leash of a missing hold how it ended. That Leash
// does not know it yet, so it answers a later question.
func TestR27AwaitLossAsksAgain(t *testing.T) {
	t.Parallel()
	rdb, ctx := locktest.DialServer(t, redistest.SharedServer(t).Addr), t.Context()
	s, key, absent := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), newLeashID()
	w := s.Events.LossWait(locktest.LockOf(key), 7)
	w.Interval = locktest.Soon
	w.Seen = &script.Hold{Mode: script.Plain, Record: script.Record{Token: 7, Carrier: absent + ":1.1"}}
	questions := rdb.Subscribe(ctx, script.CarrierChannel(w.Seen.Record.Carrier))
	defer questions.Close()
	if _, err := questions.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	reason := make(chan string, 1)
	go func() {
		text, err := w.Run(ctx)
		reason <- fmt.Sprintf("%q, %v", text, err)
	}()
	for range 2 {
		locktest.Want(t, locktest.Receive(t, questions.Channel(), 5*time.Second).Payload,
			event.Text(event.Watched, 7, w.Seen.Record.Carrier, key))
	}
	rdb.Set(ctx, script.TombstoneKey(key, 7, w.Seen.Record.Carrier), event.Released, time.Minute)
	locktest.Want(t, locktest.Receive(t, reason, 5*time.Second), `"", <nil>`)
}

// TestR27WatchAfterTheEnd: A Leash is asked about a hold that has ended. It reports how, if it
// knows, and nothing otherwise.
func TestR27WatchAfterTheEnd(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, ctx := locktest.Connect(t, s), context.Background()
	token := a.Token(key)
	tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	wakeUps := rdb.Subscribe(ctx, script.LockChannel(key))
	defer wakeUps.Close()
	if _, err := wakeUps.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	locktest.Deliver(s, event.Text(event.Watched, token+1, a.Carrier.Name, key))
	locktest.Deliver(s, event.Text(event.Watched, token, newLeashID()+":1.1", key))
	locktest.Deliver(s, event.Text(event.Watched, token, a.Carrier.Name, key))
	locktest.Eventually(t, locktest.Soon, "it is told",
		func() bool { return rdb.Get(ctx, tombstone).Val() == event.Released })
	locktest.Receive(t, wakeUps.Channel(), 5*time.Second) // who asked has seen the hold, and is not asking now
	if keys := rdb.Keys(ctx, "*"+key+"*leash*").Val(); len(keys) != 1 {
		t.Errorf("told %q", keys)
	}
	if ttl := rdb.PTTL(ctx, tombstone).Val(); ttl <= 0 || ttl > 2*locktest.WatchdogTimeout {
		t.Errorf("for %v", ttl)
	}
}
