package acquire

import (
	"context"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// TestR4MoveHere: A connection asks for a hold of another one by its owner and its token.
func TestR4MoveHere(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		// prepare changes what the first connection has, and whom the second one asks for.
		prepare func(t *testing.T, l *leash, from, to *Carrier, lock script.Lock, which *hold.Selector)
		mode    *script.Mode
		kind    Kind
		err     error
		count   int // of the second connection's hold afterwards; 0 for none
	}{
		{"a hold of this Leash", nil, script.Plain, Moved, nil, 1},
		{"a hold of another Leash", nil, script.Plain, Moved, nil, 1},
		{"a reader", nil, script.Read, Moved, nil, 1},
		{"a hold with two counts", func(t *testing.T, _ *leash, from, _ *Carrier, lock script.Lock, _ *hold.Selector) {
			from.take(t, Options{Mode: script.Plain, Owner: "me", TTL: time.Minute}, lock.Key)
		}, script.Plain, Moved, nil, 2},
		{"a hold of its own", func(t *testing.T, l *leash, _, to *Carrier, lock script.Lock, which *hold.Selector) {
			to.MoveHere(lock, *which, l.Redis.Deadline())
		}, script.Plain, Granted, nil, 1},
		{"no hold", func(t *testing.T, _ *leash, from, _ *Carrier, lock script.Lock, _ *hold.Selector) {
			from.releaseNewest(t, lock.Key)
		}, script.Plain, Absent, nil, 0},
		{"another owner", func(_ *testing.T, _ *leash, _, _ *Carrier, _ script.Lock, which *hold.Selector) {
			which.Owner = "you"
		}, script.Plain, Absent, nil, 0},
		{"another token", func(_ *testing.T, _ *leash, _, _ *Carrier, _ script.Lock, which *hold.Selector) {
			which.Token++
		}, script.Plain, Absent, nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l, lock := leashOf(t), newLock()
			from, to := l.connect(), l.connect()
			if row.name == "a hold of another Leash" {
				from = leashOf(t).connect()
			}
			tokens := from.take(t, Options{Mode: row.mode, Owner: "me", TTL: time.Minute}, lock.Key)
			which := hold.Selector{Owner: "me", Token: tokens[0], Mode: row.mode.Option}
			if row.prepare != nil {
				row.prepare(t, l, from, to, lock, &which)
			}
			r := to.MoveHere(lock, which, l.Redis.Deadline())
			if r.Kind != row.kind || r.Err != row.err || r.Took() && r.Token != tokens[0] {
				t.Errorf("got %+v", r)
			}
			for range row.count {
				to.releaseNewest(t, lock.Key)
			}
			if to.Holds() != 0 || row.count > 0 && l.taken([]string{lock.Key})[0] {
				t.Errorf("after %d releases, the lock is taken", row.count)
			}
		})
	}
}

// TestR26MoveHereOfUnknownOutcome: The move, or its reply, is late. It goes on in the background,
// and the next acquire of the owner waits for it. If the connection has ended, the hold is
// released.
func TestR26MoveHereOfUnknownOutcome(t *testing.T) {
	for name, arm := range late {
		for what, ends := range map[string]bool{"": false, ", connection ended": true} {
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				l, p := faultyLeashOf(t)
				from, to, lock := l.connect(), l.connect(), newLock()
				opts := Options{Lock: lock, Mode: script.Plain, Owner: "me", TTL: time.Minute}
				which := hold.Selector{Owner: "me", Token: from.take(t, opts, lock.Key)[0]}
				fault := arm(p, faultproxy.Holding(lock.Key, to.Name), faultproxy.Always())
				if r := to.MoveHere(lock, which, l.Redis.Deadline()); r.Kind != Unknown {
					t.Errorf("got %+v", r)
				}
				if ends {
					to.End(hold.Release)
				}
				fault.Release()
				if ends {
					eventually(t, "it is released", func() bool { return !l.taken([]string{lock.Key})[0] })
				} else if r := to.Acquire(context.Background(), opts); r.Kind != Granted || r.Token != which.Token {
					t.Errorf("then the owner's next acquire got %+v", r)
				}
				if from.Holds() != 0 {
					t.Error("the first connection has it too")
				}
			})
		}
	}
}
