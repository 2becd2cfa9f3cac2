package renewal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a Store that ages its leases by the bubble's clock and fails as it is told.
type memory struct {
	mu     sync.Mutex
	expiry map[*Hold]time.Time
	how    map[*Hold]Outcome // why a hold is not there
	calls  []call
	nodes  int                                 // slots go to nodes by slot%nodes
	fault  func(node string) fault             // nil: none
	poison func(h *Hold) (whole, unknown bool) // nil: none
}

type call struct {
	at      time.Time
	node    string
	batches []Batch
}

// fault is how a call fails.
type fault int

const (
	fine     fault = iota
	notDone        // it failed and did not apply
	butDone        // it failed, but did apply
	hangs          // no answer until the time is over, not applied
	hangsBut       // no answer until the time is over, but applied
)

func (m *memory) Node(db, slot int) string {
	node := fmt.Sprint("node", slot%max(m.nodes, 1))
	if db > 0 {
		node += fmt.Sprint("db", db)
	}
	return node
}

func (m *memory) Renew(ctx context.Context, node string, batches []Batch) [][]Outcome {
	m.mu.Lock()
	m.calls = append(m.calls, call{time.Now(), node, batches})
	f := fine
	if m.fault != nil {
		f = m.fault(node)
	}
	m.mu.Unlock()
	out := make([][]Outcome, len(batches))
	for i, b := range batches {
		out[i] = make([]Outcome, len(b.Holds))
		if f != notDone && f != hangs {
			out[i] = m.apply(b)
		}
		if f != fine {
			out[i] = make([]Outcome, len(b.Holds))
		}
	}
	if f == hangs || f == hangsBut {
		<-ctx.Done()
	}
	return out
}

func (m *memory) apply(b Batch) []Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Outcome, len(b.Holds))
	for i, h := range b.Holds {
		if m.poison != nil {
			whole, unknown := m.poison(h)
			if whole {
				return nil
			}
			if unknown {
				continue
			}
		}
		switch {
		case m.expiry[h].After(time.Now()) && m.how[h] == Unknown:
			out[i] = Renewed
			if !b.Lease {
				m.expiry[h] = time.Now().Add(b.TTL)
			}
		case m.how[h] != Unknown:
			out[i] = m.how[h]
		default:
			out[i] = Gone
		}
	}
	return out
}

// left is how long a hold lasts in the store.
func (m *memory) left(h *Hold) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Until(m.expiry[h])
}

func (m *memory) set(f func(string) fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func always(f fault) func(string) fault { return func(string) fault { return f } }

func (m *memory) end(h *Hold, how Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.how[h] = how
	if how == Unknown {
		delete(m.expiry, h)
	}
}

func (m *memory) called() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]call(nil), m.calls...)
}

// owner is a Keeper that writes down what it is told.
type owner struct {
	mu   sync.Mutex
	told []string
	at   time.Time
}

func (o *owner) Lost(reason string) { o.note("lost: " + reason) }
func (o *owner) Ended(how Outcome)  { o.note(fmt.Sprint("ended: ", how)) }

func (o *owner) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told, o.at = append(o.told, text), time.Now()
}

func (o *owner) want(t *testing.T, want string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := ""
	if len(o.told) > 0 {
		got = o.told[0]
	}
	if got != want || len(o.told) > 1 {
		t.Fatalf("owner was told %q, want %q", o.told, want)
	}
}

// bench is a Watchdog at work in a bubble.
type bench struct {
	*Watchdog
	store *memory
	slept *atomic.Int64 // what the next comparison of the clocks finds
}

// inBubble runs a test in virtual time with a Watchdog that runs.
func inBubble(t *testing.T, test func(t *testing.T, w *bench)) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{expiry: make(map[*Hold]time.Time), how: make(map[*Hold]Outcome)}
		w := &bench{New(m), m, new(atomic.Int64)}
		w.drift = func() time.Duration { return time.Duration(w.slept.Swap(0)) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		test(t, w)
		cancel()
		<-done
	})
}

// grant adds a hold as if it had just been granted.
func (w *bench) grant(slot int, ttl time.Duration) (*Hold, *owner) {
	o := &owner{}
	h := &Hold{Keeper: o}
	w.store.mu.Lock()
	w.store.expiry[h] = time.Now().Add(ttl)
	w.store.mu.Unlock()
	w.Add(h, Plan{Slot: slot, TTL: ttl, Until: Until(time.Now(), ttl)})
	return h, o
}

func (w *bench) lease(slot int, ttl time.Duration) (*Hold, *owner) {
	h, o := w.grant(slot, ttl)
	w.Remove(h)
	w.Add(h, Plan{Slot: slot, TTL: ttl, Lease: true, Until: Until(time.Now(), ttl)})
	return h, o
}

// rest lets virtual time pass.
func rest(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const ttl = 30 * time.Second

func TestR24RenewedEveryThirdOfTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(5000, ttl)
		for range 600 {
			rest(time.Second)
			if left := w.store.left(h); left < ttl*2/3-time.Second {
				t.Fatalf("got %v left in the store, want two thirds of %v", left, ttl)
			}
		}
		o.want(t, "")
		if n := len(w.store.called()); n < 59 || n > 61 {
			t.Errorf("got %d calls in 600 s, want 60", n)
		}
	})
}

func TestR12SomeAreAskedForMoreOften(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(0, 30*time.Second)
		calls := func(every time.Duration) int {
			w.Pace(h, every)
			before := len(w.store.called())
			rest(time.Minute)
			return len(w.store.called()) - before
		}
		for every, want := range map[time.Duration]int{10 * time.Second: 6, 5 * time.Second: 12, time.Second: 60, time.Hour: 6} {
			if got := calls(every); got < want-1 || got > want+1 {
				t.Errorf("every %v: got %d calls in a minute, want %d", every, got, want)
			}
		}
		w.Add(h, Plan{TTL: 30 * time.Second, Every: 2 * time.Second})
		if got := calls(2 * time.Second); got < 29 || got > 31 {
			t.Errorf("got %d calls in a minute, want 30", got)
		}
		o.want(t, "")
		w.Remove(h)
		w.Pace(h, time.Second)
		if !w.Until(h).IsZero() {
			t.Error("a hold that was removed is kept again")
		}
	})
}

func TestR24DatabasesApart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		for db := range 3 {
			for range 5 {
				h, _ := w.grant(7, ttl)
				w.Remove(h)
				w.Add(h, Plan{DB: db, Slot: 7, TTL: ttl, Until: Until(time.Now(), ttl)})
			}
		}
		rest(ttl / 3)
		calls := w.store.called()
		if len(calls) != 3 {
			t.Fatalf("got %d calls, want one a database", len(calls))
		}
		for _, c := range calls {
			if len(c.batches) != 1 || len(c.batches[0].Holds) != 5 || c.node != w.store.Node(c.batches[0].DB, 7) {
				t.Errorf("%s got %v", c.node, c.batches)
			}
		}
	})
}

func TestR24KindsApart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		kinds := make(map[*Hold]int)
		for kind := range 3 {
			for range 5 {
				h, _ := w.grant(7, ttl)
				w.Remove(h)
				w.Add(h, Plan{Kind: kind, Slot: 7, TTL: ttl, Until: Until(time.Now(), ttl)})
				kinds[h] = kind
			}
		}
		rest(ttl / 3)
		batches := 0
		for _, c := range w.store.called() {
			for _, b := range c.batches {
				batches++
				for _, h := range b.Holds {
					if kinds[h] != b.Kind {
						t.Errorf("a hold of kind %d is in a batch of kind %d", kinds[h], b.Kind)
					}
				}
				if len(b.Holds) != 5 {
					t.Errorf("got %d holds in a batch, want 5", len(b.Holds))
				}
			}
		}
		if batches != 3 {
			t.Errorf("got %d batches, want 3", batches)
		}
	})
}

func TestR24OneCallANodeForWhatIsDueTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 3
		for range 600 {
			w.grant(7, ttl)
			w.grant(8, ttl)
		}
		rest(5 * time.Second)
		calls := w.store.called()
		if len(calls) != 2 {
			t.Fatalf("got %d calls, want 2: one a node and slot", len(calls))
		}
		for _, c := range calls {
			if len(c.batches) != 3 || len(c.batches[0].Holds) != 256 || len(c.batches[2].Holds) != 88 {
				t.Errorf("got %d batches, want 256, 256 and 88 holds", len(c.batches))
			}
		}
	})
}

func TestR24SlotsAreSpreadOverTheThird(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		for slot := 0; slot < slotCount; slot += 64 {
			w.grant(slot, ttl)
		}
		rest(10 * time.Second)
		perSecond := make(map[int]int)
		for _, c := range w.store.called() {
			perSecond[int(c.at.Sub(w.start)/time.Second)] += len(c.batches)
		}
		for second := range 10 {
			if n := perSecond[second]; n < 24 || n > 28 {
				t.Errorf("second %d: got %d slots, want 25 or 26", second, n)
			}
		}
	})
}

func TestR24ASilentNodeHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 2
		var sick, well *owner
		var alive *Hold
		for slot := range 200 {
			_, o := w.grant(2*slot, ttl)
			sick = o
			alive, well = w.grant(2*slot+1, ttl)
		}
		w.store.set(func(node string) fault {
			if node == "node0" {
				return hangs
			}
			return fine
		})
		for range 60 {
			rest(time.Second)
			if left := w.store.left(alive); left < ttl*2/3-time.Second {
				t.Fatalf("got %v left on the node that answers", left)
			}
		}
		sick.want(t, "lost: "+ReasonSilence)
		well.want(t, "")
	})
}

func TestR25AmbiguousFailures(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault fault
	}{
		{"failed and did not apply", notDone},
		{"failed but did apply", butDone},
		{"hung and did not apply", hangs},
		{"hung but did apply", hangsBut},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.grant(1, ttl)
				w.store.set(always(row.fault))
				rest(15 * time.Second)
				o.want(t, "") // it may still be renewed in time
				w.store.set(nil)
				rest(5 * time.Second)
				if left := w.store.left(h); left < ttl*2/3 {
					t.Errorf("got %v left after the store came back", left)
				}
				o.want(t, "")
				granted := time.Now()
				w.store.set(always(row.fault))
				rest(2 * ttl)
				o.want(t, "lost: "+ReasonSilence)
				if since := o.at.Sub(granted); since > ttl {
					t.Errorf("the loss was told %v after the last good renewal, want within %v", since, ttl)
				}
			})
		})
	}
}

func TestR25LossIsToldBeforeTheLeaseIsOver(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 30 * time.Second, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.grant(1234, ttl)
				rest(ttl * 2)
				w.store.set(always(hangs))
				expiry := time.Now().Add(w.store.left(h))
				rest(2 * ttl)
				o.want(t, "lost: "+ReasonSilence)
				if !o.at.Before(expiry) {
					t.Errorf("told %v after the lease was over", o.at.Sub(expiry))
				}
			})
		})
	}
}

func TestR25AnAnswerThatComesTooLateIsALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(1, ttl)
		w.mu.Lock()
		h.until = time.Now().Add(time.Millisecond)
		w.mu.Unlock()
		end := h.settle(Renewed, time.Now(), time.Now().Add(2*time.Millisecond))
		if end == nil {
			t.Fatal("the hold was taken for renewed")
		}
		end()
		o.want(t, "lost: "+ReasonSilence)
	})
}

func TestR25ThreeOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		var owners []*owner
		for _, how := range []Outcome{Unknown, Released, Moved, Broken} {
			h, o := w.grant(1, ttl)
			w.store.end(h, how)
			owners = append(owners, o)
		}
		_, kept := w.grant(1, ttl)
		rest(11 * time.Second)
		owners[0].want(t, "lost: "+ReasonGone)
		owners[1].want(t, fmt.Sprint("ended: ", Released))
		owners[2].want(t, fmt.Sprint("ended: ", Moved))
		owners[3].want(t, "lost: "+ReasonBroken)
		kept.want(t, "")
	})
}

func TestR25OneHoldHarmsNoOther(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole=", whole), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				bad, badOwner := w.grant(1, ttl)
				good, goodOwner := w.grant(1, ttl)
				w.store.mu.Lock()
				w.store.poison = func(h *Hold) (bool, bool) { return whole && h == bad, h == bad }
				w.store.mu.Unlock()
				for range 50 {
					rest(time.Second)
					if left := w.store.left(good); left < ttl*2/3-time.Second {
						t.Fatalf("got %v left of the good hold", left)
					}
				}
				goodOwner.want(t, "")
				badOwner.want(t, "lost: "+ReasonSilence)
			})
		})
	}
}

func TestR24LeasesAreLookedAtAndNotRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		_, o := w.lease(1, ttl)
		gone, goneOwner := w.lease(1, ttl)
		w.store.end(gone, Unknown)
		rest(11 * time.Second)
		goneOwner.want(t, "lost: "+ReasonGone)
		o.want(t, "")
		rest(ttl)
		o.want(t, fmt.Sprint("ended: ", Expired))
	})
}

func TestR26RemoveBeatsRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(1, ttl)
		w.store.set(always(hangsBut))
		rest(10 * time.Second) // a renewal is on its way
		if until := w.Remove(h); until.IsZero() {
			t.Error("Remove did not say how long the hold was safe")
		}
		rest(2 * ttl)
		o.want(t, "")
		if !w.Until(h).IsZero() {
			t.Error("a removed hold is kept")
		}
	})
}

func TestR31SuspendLosesAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		_, short := w.grant(1, ttl)
		long, longOwner := w.grant(16000, 10*ttl)
		before := w.Until(long)
		w.slept.Store(int64(ttl/3 + time.Second))
		rest(time.Second)
		short.want(t, "lost: "+ReasonSuspended)
		longOwner.want(t, "")
		if after := w.Until(long); !after.Equal(before.Add(-ttl/3 - time.Second)) {
			t.Errorf("got until %v, want the time slept through taken off", after)
		}
	})
}

func TestR31RenewAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 3
		var holds []*Hold
		for slot := range 300 {
			h, _ := w.grant(slot*50, ttl)
			holds = append(holds, h)
		}
		rest(7 * time.Second)
		w.RenewAll(t.Context())
		for _, h := range holds {
			if left := w.store.left(h); left != ttl {
				t.Fatalf("got %v left, want all of it", left)
			}
		}
		w.store.set(always(hangs))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		w.RenewAll(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("RenewAll took %v, want it bounded by its context", took)
		}
	})
}

func TestCheckLooksAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(16000, ttl)
		w.store.end(h, Released)
		w.Check(h)
		synctest.Wait()
		o.want(t, fmt.Sprint("ended: ", Released))
	})
}

func TestAddAgainOnlyRaises(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, _ := w.grant(1, ttl)
		before := w.Until(h)
		w.Add(h, Plan{Slot: 1, TTL: 2 * ttl, Until: time.Now()})
		if got := w.Until(h); !got.Equal(before) {
			t.Errorf("got until %v, want %v", got, before)
		}
		rest(20 * time.Second)
		if left := w.store.left(h); left < ttl {
			t.Errorf("got %v left, want the new TTL", left)
		}
	})
}

// TestR1NeverBelievedLongerThanKept is a random walk: at every moment, a hold nobody was told the loss of is there in the store.
func TestR1NeverBelievedLongerThanKept(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				random := rand.New(rand.NewPCG(seed, 1))
				faults := rand.New(rand.NewPCG(seed, 2)) // under the store's mutex
				w.store.set(func(string) fault { return fault(faults.IntN(5)) })
				holds := make(map[*Hold]*owner)
				for range 500 {
					if random.IntN(4) == 0 {
						h, o := w.grant(random.IntN(slotCount), []time.Duration{500 * time.Millisecond, 3 * time.Second, ttl}[random.IntN(3)])
						holds[h] = o
					}
					rest(time.Duration(random.IntN(300)) * time.Millisecond)
					for h, o := range holds {
						o.mu.Lock()
						ended := len(o.told) > 0
						o.mu.Unlock()
						if ended {
							delete(holds, h)
						} else if w.store.left(h) <= 0 {
							t.Fatal("a hold is believed in that the store has let go")
						}
					}
				}
			})
		})
	}
}

func BenchmarkStep(b *testing.B) {
	m := &memory{expiry: make(map[*Hold]time.Time), how: make(map[*Hold]Outcome)}
	w := New(m)
	for n := range 100_000 {
		w.Add(&Hold{Keeper: &owner{}}, Plan{Slot: n % slotCount, TTL: time.Hour, Until: time.Now().Add(time.Hour)})
	}
	b.ReportAllocs()
	for b.Loop() {
		w.step(b.Context())
	}
}
