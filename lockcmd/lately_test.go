package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// TestR27AwaitLossHeardTooLate: who waits on another Leash has seen the hold, and that it is watched is heard when it has ended.
func TestR27AwaitLossHeardTooLate(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		carrier, other, ctx := leash(t, rdb, Config{}), leash(t, rdb, Config{}), context.Background()
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			want    string
			options []string
			end     func(t *testing.T, a *conn, key string)
		}{
			"released":     {"", nil, func(t *testing.T, a *conn, key string) { want(t, a.do("LOCK.RELEASE", key), ":1") }},
			"closed":       {"", nil, func(_ *testing.T, a *conn, _ string) { a.carrier.End(Release) }},
			"left":         {"", []string{"TTL", "1000"}, func(_ *testing.T, a *conn, _ string) { a.carrier.End(Expire) }},
			"over":         {"", []string{"LEASE", "500"}, func(*testing.T, *conn, string) {}},
			"maxhold":      {reasonMaxHold, []string{"MAXHOLD", "300"}, func(*testing.T, *conn, string) {}},
			"maxhold kept": {reasonMaxHold, []string{"MAXHOLD", "300", "ONLOSS", "ERROR"}, func(*testing.T, *conn, string) {}},
			"broken":       {renewal.ReasonBroken, nil, func(t *testing.T, _ *conn, key string) { want(t, connect(t, carrier).do("LOCK.BREAK", key), ":1") }},
			"broken left": {renewal.ReasonBroken, nil, func(t *testing.T, a *conn, key string) {
				a.carrier.End(Expire)
				want(t, connect(t, carrier).do("LOCK.BREAK", key), ":2")
			}},
			"gone": {renewal.ReasonGone, nil, func(_ *testing.T, _ *conn, key string) { rdb.Del(ctx, key) }},
		} {
			tests[name] = func(t *testing.T) {
				a, key := connect(t, carrier), newKey()
				token := a.token(append([]string{key}, row.options...)...)
				w := &lossWait{service: other, lock: lockID{0, key}, options: options{token: token}}
				l, err := other.inspect(w.lock, other.deadline())
				f, ok := l.find(w.options)
				if err != nil || !ok {
					t.Fatalf("the hold is not seen: %v", err)
				}
				w.seen = &f
				row.end(t, a, key)
				eventually(t, 5*time.Second, "it is not there any more", func() bool { return rdb.Exists(ctx, key).Val() == 0 })
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				reason, err := w.run(ctx)
				if err != nil || reason != row.want || ctx.Err() != nil {
					t.Errorf("got %q, %v, %v, want %q", reason, err, ctx.Err(), row.want)
				}
			}
		}
		atOnce(t, tests)
		eventually(t, soon, "nobody is being answered", func() bool { return carrier.inquiries.Load() == 0 })
	})
}

// TestMissedHoldsOfOthers: what is not this Leash's, or not well said, is not answered; nor is anything while losses may have been forgotten.
func TestMissedHoldsOfOthers(t *testing.T) {
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	said := func(of heardOf, where string) bool {
		t.Helper()
		s.hear(newsText(missedText, of.token, of.carrier, where))
		eventually(t, soon, "nobody is being answered", func() bool { return s.inquiries.Load() == 0 })
		return rdb.Exists(context.Background(), tombstoneKey(key, of.token, of.carrier)).Val() == 1
	}
	asked := int64(maxLately + 2)
	for where, answers := range map[string]bool{"0 " + key: true, key: false, "x " + key: false, "-1 " + key: false, "99999999999 " + key: false} {
		asked++
		if got := said(heardOf{asked, a.carrier.name}, where); got != answers {
			t.Errorf("%q: answered %v, want %v", where, got, answers)
		}
	}
	if said(heardOf{1, newUUID() + ":1.1"}, "0 "+key) {
		t.Error("another Leash's hold was answered for")
	}
	token := a.token(key)
	if said(heardOf{token, a.carrier.name}, "0 "+key) {
		t.Error("a present hold is said to be over")
	}
	for n := range maxLately + 1 {
		s.lately.add(heardOf{int64(n), a.carrier.name}, renewal.ReasonGone)
	}
	if said(heardOf{maxLately + 1, a.carrier.name}, "0 "+key) {
		t.Error("it was answered, though not all losses are known")
	}
	if !said(heardOf{7, a.carrier.name}, "0 "+key) {
		t.Error("a loss that is known was not told")
	}
	if got := rdb.Get(context.Background(), tombstoneKey(key, 7, a.carrier.name)).Val(); got != lostText+" "+renewal.ReasonGone {
		t.Errorf("it was told as %q", got)
	}
}

// TestLatelyForgets: losses make room when they are old.
func TestLatelyForgets(t *testing.T) {
	var l lately
	of := func(n int) heardOf { return heardOf{int64(n), "c" + strconv.Itoa(n)} }
	for n := range maxLately {
		l.add(of(n), "x")
	}
	for k, loss := range l.lost {
		loss.at = loss.at.Add(-2 * latelyFor)
		l.lost[k] = loss
	}
	l.add(of(maxLately), "new")
	if _, known := l.reason(of(0)); !known || len(l.lost) != 1 {
		t.Errorf("%d losses are kept, and known is %v", len(l.lost), known)
	}
	if reason, _ := l.reason(of(maxLately)); reason != "new" {
		t.Errorf("got %q", reason)
	}
}
