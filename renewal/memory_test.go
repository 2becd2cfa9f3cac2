package renewal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// memory is a Store in memory. Its leases expire by the bubble's clock, and its calls fail as the
// test says.
type memory struct {
	mu     sync.Mutex
	expiry map[*Hold]time.Time
	how    map[*Hold]Outcome // why a hold is missing
	calls  []call
	nodes  int                     // slots go to nodes by slot%nodes
	fault  func(node string) fault // nil means no faults
	each   time.Duration           // the time of a call for each hold
	// The time of each call, by node. Half of it passes before the call takes effect.
	delay  map[string]time.Duration
	poison func(h *Hold) (whole, unknown bool) // nil means no such holds
}

type call struct {
	at      time.Time
	node    string
	batches []Batch
}

// fault is how a call fails.
type fault int

const (
	fine           fault = iota
	notDone              // fails and has no effect
	doneUnanswered       // fails, but had an effect
	hangs                // no answer in time, and no effect
	hangsDone            // no answer in time, but had an effect
)

func (m *memory) Node(db, slot int) string {
	node := fmt.Sprint("node", slot%max(m.nodes, 1))
	if db > 0 {
		node += fmt.Sprint("db", db)
	}
	return node
}

// copied returns a copy, because rounds reuse their batches.
func copied(batches []Batch) []Batch {
	out := slices.Clone(batches)
	for i := range out {
		out[i].Holds = slices.Clone(out[i].Holds)
	}
	return out
}

func (m *memory) Renew(ctx context.Context, node string, batches []Batch, out [][]Outcome) {
	m.mu.Lock()
	m.calls = append(m.calls, call{time.Now(), node, copied(batches)})
	f, delay := fine, m.delay[node]
	for _, b := range batches {
		delay += m.each * time.Duration(len(b.Holds))
	}
	if m.fault != nil {
		f = m.fault(node)
	}
	m.mu.Unlock()
	if !wait(ctx, delay/2) {
		f = hangs
	}
	for i, b := range batches {
		if f == notDone || f == hangs {
			continue
		}
		said := m.apply(b)
		switch {
		case f != fine:
		case said == nil:
			out[i] = nil
		default:
			copy(out[i], said)
		}
	}
	if !wait(ctx, delay/2) {
		f = hangsDone
	}
	if f == hangs || f == hangsDone {
		<-ctx.Done()
		for i := range out {
			if out[i] == nil {
				out[i] = make([]Outcome, len(batches[i].Holds))
			}
			clear(out[i])
		}
	}
}

// wait returns false when ctx ends first. It makes no timer of zero length. In a bubble, such a
// timer sometimes crashes the race detector (https://github.com/golang/go/issues/78156).
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
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

// age lets time pass for the store alone, as during a suspend of this machine.
func (m *memory) age(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, at := range m.expiry {
		m.expiry[h] = at.Add(-d)
	}
}

// left returns how long a hold lasts in the store.
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

// count returns how often the store was called for a hold.
func (m *memory) count(h *Hold) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		for _, b := range c.batches {
			n += len(slices.DeleteFunc(slices.Clone(b.Holds), func(other *Hold) bool { return other != h }))
		}
	}
	return n
}
