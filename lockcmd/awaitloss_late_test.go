package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR27AwaitLossRequestArrivesTooLate: AWAITLOSS on another Leash has seen the hold. Its request
// to report the end arrives after the end.
func TestR27AwaitLossRequestArrivesTooLate(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		carrier, other, ctx := leash(t, rdb, Config{}), leash(t, rdb, Config{}), context.Background()
		tests := make(map[string]func(*testing.T))
		released := func(t *testing.T, a *conn, key string) { want(t, a.do("LOCK.RELEASE", key), ":1") }
		ends := func(how Ending) func(*testing.T, *conn, string) {
			return func(_ *testing.T, a *conn, _ string) { a.carrier.End(how) }
		}
		broken := func(reply string) func(*testing.T, *conn, string) {
			return func(t *testing.T, _ *conn, key string) { want(t, connect(t, carrier).do("LOCK.BREAK", key), reply) }
		}
		deleted := func(_ *testing.T, _ *conn, key string) { rdb.Del(ctx, key) }
		extended := func(t *testing.T, a *conn, key string) { want(t, a.do("LOCK.EXTEND", key, "60000"), ":60000") }
		for name, row := range map[string]struct {
			want    string
			options string
			ends    []func(t *testing.T, a *conn, key string)
			stays   bool // for a while
		}{
			"released":     {want: "", ends: list(released)},
			"closed":       {want: "", ends: list(ends(Release))},
			"left":         {want: "", options: "TTL 6000", ends: list(ends(Expire)), stays: true},
			"over":         {want: "", options: "LEASE 6000"},
			"maxhold":      {want: hold.ReasonMaxHold, options: "MAXHOLD 6000"},
			"maxhold kept": {want: hold.ReasonMaxHold, options: "MAXHOLD 6000 ONLOSS ERROR"},
			"left, till its maxhold": {want: "", options: "MAXHOLD 6000", ends: list(ends(Expire)),
				stays: true},
			"left, and over by its maxhold": {want: "", options: "MAXHOLD 6000", ends: list(ends(Expire))},
			"broken":                        {want: renewal.ReasonBroken, ends: list(broken(":1"))},
			"broken when left":              {want: renewal.ReasonBroken, ends: list(ends(Expire), broken(":2"))},
			"gone":                          {want: renewal.ReasonGone, ends: list(deleted)},
			"gone and closed":               {want: renewal.ReasonGone, ends: list(deleted, ends(Release))},
			"gone and left":                 {want: renewal.ReasonGone, ends: list(deleted, ends(Expire))},
			"a lease, gone when left": {want: renewal.ReasonGone, options: "LEASE 60000",
				ends: list(ends(Release), deleted)},
			"a lease set anew, gone when left": {want: renewal.ReasonGone, options: "LEASE 30000",
				ends: list(extended, ends(Release), deleted)},
		} {
			if name == "over" && strings.HasSuffix(t.Name(), "/embedded") {
				continue // on a busy machine its clock is late, and it then ends a lease early
			}
			tests[name] = func(t *testing.T) {
				a, key := connect(t, carrier), newKey()
				token := a.token(append([]string{key}, strings.Fields(row.options)...)...)
				w := other.Events.lossWait(lockOf(key), token)
				info, err := other.Redis.Inspect(w.Lock, other.deadline())
				f, ok := info.Find(token)
				if err != nil || !ok {
					t.Fatalf("the hold is not seen: %v", err)
				}
				w.Seen = &f
				if row.want != renewal.ReasonGone {
					w.Interval = soon // a busy Leash may answer late
				}
				for _, end := range row.ends {
					end(t, a, key)
				}
				if !row.stays {
					eventually(t, soon, "it is not there any more", func() bool {
						return rdb.Exists(ctx, key).Val() == 0
					})
				}
				ctx, cancel := context.WithTimeout(ctx, soon)
				defer cancel()
				reason, err := w.Run(ctx)
				if err != nil || reason != row.want || ctx.Err() != nil {
					t.Errorf("got %q, %v, %v, want %q", reason, err, ctx.Err(), row.want)
				}
			}
		}
		runParallel(t, tests)
	})
}

func list[T any](all ...T) []T { return all }

// TestR27AwaitLossAsksAgain: AWAITLOSS asks the Leash of a missing hold how it ended. That Leash
// does not know it yet, so it answers a later question.
func TestR27AwaitLossAsksAgain(t *testing.T) {
	t.Parallel()
	rdb, ctx := dialServer(t, sharedServer(t).Addr), t.Context()
	s, key, absent := leash(t, rdb, Config{}), newKey(), newUUID()
	w := s.Events.lossWait(lockOf(key), 7)
	w.Interval = soon
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
		want(t, receive(t, questions.Channel(), 5*time.Second).Payload,
			event.Text(event.Watched, 7, w.Seen.Record.Carrier, key))
	}
	rdb.Set(ctx, script.TombstoneKey(key, 7, w.Seen.Record.Carrier), event.Released, time.Minute)
	want(t, receive(t, reason, 5*time.Second), `"", <nil>`)
}

// TestR27WatchAfterTheEnd: A Leash is asked about a hold that has ended. It reports how, if it
// knows, and nothing otherwise.
func TestR27WatchAfterTheEnd(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a, ctx := connect(t, s), context.Background()
	token := a.token(key)
	tombstone := script.TombstoneKey(key, token, a.carrier.Name)
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wakeUps := rdb.Subscribe(ctx, script.LockChannel(key))
	defer wakeUps.Close()
	if _, err := wakeUps.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	s.receive(event.Text(event.Watched, token+1, a.carrier.Name, key))
	s.receive(event.Text(event.Watched, token, newUUID()+":1.1", key))
	s.receive(event.Text(event.Watched, token, a.carrier.Name, key))
	eventually(t, soon, "it is told", func() bool { return rdb.Get(ctx, tombstone).Val() == event.Released })
	receive(t, wakeUps.Channel(), 5*time.Second) // who asked has seen the hold, and is not asking now
	if keys := rdb.Keys(ctx, "*"+key+"*leash*").Val(); len(keys) != 1 {
		t.Errorf("told %q", keys)
	}
	if ttl := rdb.PTTL(ctx, tombstone).Val(); ttl <= 0 || ttl > 2*s.cfg.WatchdogTimeout {
		t.Errorf("for %v", ttl)
	}
}
