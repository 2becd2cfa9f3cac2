package hold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// asked is a renewal.Store that tells when it is asked.
type asked struct{ at chan time.Time }

func (a asked) Node(int, int) string { return "node" }

func (a asked) Renew(context.Context, string, []renewal.Batch, [][]renewal.Outcome) {
	select {
	case a.at <- time.Now():
	default:
	}
}

// TestR1LateGrantIsRenewedAtOnce: The answer to an acquire took longer than half of the TTL. The
// hold is renewed at once. Otherwise it would be renewed at its regular time.
func TestR1LateGrantIsRenewedAtOnce(t *testing.T) {
	for _, row := range []struct {
		left time.Duration // of a TTL of 60 s
		soon bool
	}{{59 * time.Second, false}, {31 * time.Second, false}, {29 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			l, store := newLeash(), asked{at: make(chan time.Time, 1)}
			l.Watchdog = renewal.New(store)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go l.Watchdog.Run(ctx)
			h := New(l.connect().carrier, &Grant{Key: "k", Mode: script.Plain, Owner: "me", Token: 1, TTL: time.Minute})
			began := time.Now()
			h.Carrier.Attach(ctx, []*Hold{h}, "", []time.Time{began.Add(row.left)})
			if took := (<-store.at).Sub(began); (took < 100*time.Millisecond) != row.soon {
				t.Errorf("with %v left it was renewed after %v", row.left, took)
			}
		})
	}
}

// renews is a renewal.Store that renews everything.
type renews struct{}

func (renews) Node(int, int) string { return "node" }

func (renews) Renew(_ context.Context, _ string, _ []renewal.Batch, results [][]renewal.Outcome) {
	for _, outcomes := range results {
		for i := range outcomes {
			outcomes[i] = renewal.Renewed
		}
	}
}

// TestSafeUntilIsLaterInTime: Renewals do not change SafeUntil. CheckOverdue does, before that time
// has come. Otherwise a write that lasts a little ends the connection of all.
func TestSafeUntilIsLaterInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeash()
		l.Watchdog = renewal.New(renews{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Watchdog.Run(ctx)
		h := New(l.connect().carrier, &Grant{Key: "k", Mode: script.Plain, Owner: "me", Token: 1, TTL: time.Minute})
		first := time.Now().Add(time.Minute)
		h.Carrier.Attach(ctx, []*Hold{h}, "", []time.Time{first})
		time.Sleep(time.Until(first) - overdueSoon/2)
		h.Carrier.CheckOverdue()
		if until := *h.Carrier.SafeUntil(); !until.After(first.Add(10 * time.Second)) {
			t.Errorf("safe for %v more, want the end of the renewed hold", time.Until(until))
		}
	})
}
