package acquire

import (
	"context"
	"slices"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestAcquireAllTakesAllOrNone: One of three keys cannot be had. The others are free again.
func TestAcquireAllTakesAllOrNone(t *testing.T) {
	t.Parallel()
	const block = 50 * time.Millisecond
	plain := Options{Mode: script.Plain, TTL: time.Minute}
	owned := plain
	owned.Owner = "me"
	for _, row := range []struct {
		name    string
		opts    Options
		prepare func(t *testing.T, l *leash, c *Carrier, keys []string) // before the command
		kind    Kind
		err     error
		taken   []bool // afterwards
		holds   int
	}{
		{"all are free", plain, nil, Granted, nil, []bool{true, true, true}, 3},
		{"the first is taken", plain, takenKey(0), Taken, nil, []bool{true, false, false}, 0},
		{"the second is taken", plain, takenKey(1), Taken, nil, []bool{false, true, false}, 0},
		{"the last is taken", plain, takenKey(2), Taken, nil, []bool{false, false, true}, 0},
		{"the second is of another mode", owned, func(t *testing.T, l *leash, c *Carrier, keys []string) {
			c.take(t, Options{Mode: script.Read, TTL: time.Minute, Owner: "me"}, keys[1])
		}, Failed, refusal.Error(refusal.OtherMode), []bool{false, true, false}, 1},
		{"the owner has the second", owned, func(t *testing.T, l *leash, c *Carrier, keys []string) {
			c.take(t, owned, keys[1])
		}, Granted, nil, []bool{true, true, true}, 3},
		{"another connection of the owner has the second", owned,
			func(t *testing.T, l *leash, _ *Carrier, keys []string) {
				l.connect().take(t, owned, keys[1])
			}, Failed, refusal.Error(refusal.Elsewhere), []bool{false, true, false}, 0},
		{"this connection has the second", plain, func(t *testing.T, _ *leash, c *Carrier, keys []string) {
			c.take(t, plain, keys[1])
		}, Taken, nil, []bool{false, true, false}, 1},
	} {
		for _, waits := range []bool{false, true} {
			name, opts, kind, wantErr := row.name, row.opts, row.kind, row.err
			if opts.Wait, opts.Block = waits, block; waits {
				if name += ", with BLOCK"; row.kind == Taken && row.holds == 1 {
					kind, wantErr = Failed, refusal.Error(refusal.Deadlock) // it would wait for itself
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l, keys := leashOf(t), newKeys(3)
				c := l.connect()
				if row.prepare != nil {
					row.prepare(t, l, c, keys)
				}
				given := []string{keys[2], keys[0], keys[1]}
				tokens, r := c.AcquireAll(t.Context(), opts, given, 0)
				if r.Kind != kind || r.Err != wantErr {
					t.Errorf("got %+v", r)
				}
				for i, token := range tokens {
					h := c.Newest(script.Lock{Key: given[i]}, hold.Selector{}.Means)
					if h == nil || h.Token != token {
						t.Errorf("%s has token %d, hold %v", given[i], token, h)
					}
				}
				if got := l.taken(keys); !slices.Equal(got, row.taken) || c.Holds() != row.holds {
					t.Errorf("the keys are taken: %v, and the connection has %d holds", got, c.Holds())
				}
				if l.Waits.Stats.Waiters.Load() != 0 {
					t.Error("a waiter stays")
				}
			})
		}
	}
}

// takenKey lets another connection take one of the keys.
func takenKey(i int) func(*testing.T, *leash, *Carrier, []string) {
	return func(t *testing.T, l *leash, _ *Carrier, keys []string) {
		l.connect().take(t, Options{Mode: script.Plain, TTL: time.Minute}, keys[i])
	}
}

// TestR19AcquireAllEndsWithItsConnection: The connection ends while the command waits for its
// second key. The first one, which it has, is free again.
func TestR19AcquireAllEndsWithItsConnection(t *testing.T) {
	for name, end := range map[string]func(c *Carrier, gone context.CancelFunc){
		"the command is told first":   func(_ *Carrier, gone context.CancelFunc) { gone() },
		"the holds are settled first": func(c *Carrier, gone context.CancelFunc) { c.End(hold.Release); gone() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, keys := leashOf(t), newKeys(3)
			opts := Options{Mode: script.Plain, TTL: time.Minute}
			l.connect().take(t, opts, keys[1])
			opts.Wait = true
			c := l.connect()
			ctx, gone := context.WithCancel(t.Context())
			reply := make(chan Result)
			go func() {
				_, r := c.AcquireAll(ctx, opts, keys, 0)
				reply <- r
			}()
			eventually(t, "it waits with the first key", func() bool { return c.WaitsFor() != nil && c.Holds() == 1 })
			end(c, gone)
			if r := <-reply; r.Kind != Failed || r.Err != refusal.Error(refusal.Gone) {
				t.Errorf("got %+v", r)
			}
			eventually(t, "only the second key is taken", func() bool {
				return slices.Equal(l.taken(keys), []bool{false, true, false})
			})
			if c.Holds() != 0 || l.Waits.Stats.Waiters.Load() != 0 {
				t.Errorf("%d holds and %d waiters stay", c.Holds(), l.Waits.Stats.Waiters.Load())
			}
		})
	}
}

// TestR26AcquireAllOfUnknownOutcome: The request for the second key, or its reply, is lost. The
// client learns that the outcome is unknown, and no key stays taken.
func TestR26AcquireAllOfUnknownOutcome(t *testing.T) {
	for name, arm := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, p := faultyLeashOf(t)
			keys, c := newKeys(3), l.connect()
			fault := arm(p, faultproxy.Holding(keys[1]), faultproxy.Always())
			_, r := c.AcquireAll(t.Context(), Options{Mode: script.Plain, TTL: time.Minute}, keys, 0)
			if r.Kind != Unknown || r.Err != refusal.Error(refusal.Unanswered) {
				t.Errorf("got %+v", r)
			}
			if err := fault.Await(time.Second); err != nil {
				t.Error(err)
			}
			fault.Release()
			eventually(t, "all keys are free", func() bool { return !slices.Contains(l.taken(keys), true) })
			if c.Holds() != 0 {
				t.Errorf("the connection has %d holds", c.Holds())
			}
		})
	}
}
