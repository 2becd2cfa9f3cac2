package acquire

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
)

// TestQuorumTakesAMajorityOrNone: Others have some of five keys, and some are no locks. The command
// takes a quorum, or what it got is free again.
func TestQuorumTakesAMajorityOrNone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name         string
		taken, wrong []int // keys
		quorum       int
		kind         Kind
		fails        bool // with an error
	}{
		{"all are free", nil, nil, 3, Granted, false},
		{"two are taken", []int{0, 3}, nil, 3, Granted, false},
		{"three are taken", []int{0, 1, 4}, nil, 3, Taken, false},
		{"one of all is taken", []int{2}, nil, 5, Taken, false},
		{"two are no locks", nil, []int{1, 2}, 3, Granted, false},
		{"three are no locks", nil, []int{1, 2, 3}, 3, Failed, true},
		{"two are taken and one is no lock", []int{0, 4}, []int{2}, 3, Taken, false},
	} {
		for _, block := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, BLOCK %v", row.name, block), func(t *testing.T) {
				t.Parallel()
				l, keys := leashOf(t), newKeys(5)
				opts, want := Options{Mode: script.Plain, TTL: time.Minute}, make([]bool, len(keys))
				for _, i := range row.taken {
					l.connect().take(t, opts, keys[i])
					want[i] = true
				}
				for _, i := range row.wrong {
					l.rdb.RPush(t.Context(), keys[i], "an element")
					want[i] = true
				}
				c := l.connect()
				opts.Wait, opts.Block = block > 0, block
				tokens, r := c.AcquireAll(t.Context(), opts, keys, row.quorum)
				if r.Kind != row.kind || (r.Err != nil) != row.fails {
					t.Errorf("got %+v", r)
				}
				for i, token := range tokens {
					if (token == 0) != want[i] {
						t.Errorf("key %d: token %d", i, token)
					}
					want[i] = true
				}
				eventually(t, "only what was granted stays", func() bool { return slices.Equal(l.taken(keys), want) })
				if got := c.Holds(); (got > 0) != r.Took() {
					t.Errorf("%d holds", got)
				}
			})
		}
	}
}

// TestQuorumWaitsForAMajority: A command waits until one of the missing keys is free. It has none
// in hand until then.
func TestQuorumWaitsForAMajority(t *testing.T) {
	t.Parallel()
	l, keys := leashOf(t), newKeys(3)
	a, b, opts := l.connect(), l.connect(), Options{Mode: script.Plain, TTL: time.Minute}
	a.take(t, opts, keys[:2]...)
	opts.Wait = true
	reply := make(chan []int64)
	go func() {
		tokens, _ := b.AcquireAll(t.Context(), opts, keys, 2)
		reply <- tokens
	}()
	eventually(t, "it waits", func() bool { return l.Waits.Stats.Waiters.Load() == 1 })
	eventually(t, "it has nothing", func() bool { return slices.Equal(l.taken(keys), []bool{true, true, false}) })
	a.releaseNewest(t, keys[1])
	if tokens := <-reply; len(tokens) != 3 || tokens[0] != 0 || tokens[1] == 0 || tokens[2] == 0 {
		t.Errorf("got tokens %v", tokens)
	}
}

// TestR26QuorumUndoesTheRest: Redis does not answer about one of three keys. With a quorum of the
// others the command does not wait for it, and without one the outcome is unknown. Nobody keeps
// that key.
func TestR26QuorumUndoesTheRest(t *testing.T) {
	for _, row := range []struct {
		quorum int
		kind   Kind
		err    error
		taken  []bool
	}{
		{2, Granted, nil, []bool{true, false, true}},
		{3, Unknown, refusal.Error(refusal.Unanswered), []bool{false, false, false}},
	} {
		for name, arm := range lost {
			t.Run(fmt.Sprintf("%s, quorum of %d", name, row.quorum), func(t *testing.T) {
				t.Parallel()
				l, p := faultyLeashOf(t)
				keys, c := newKeys(3), l.connect()
				fault := arm(p, faultproxy.Holding(keys[1]), faultproxy.Always())
				_, r := c.AcquireAll(t.Context(), Options{Mode: script.Plain, TTL: time.Minute}, keys, row.quorum)
				if r.Kind != row.kind || r.Err != row.err {
					t.Errorf("got %+v", r)
				}
				if err := fault.Await(time.Second); err != nil {
					t.Error(err)
				}
				fault.Release()
				eventually(t, "nobody has that key", func() bool {
					return slices.Equal(l.taken(keys), row.taken) && (c.Holds() > 0) == r.Took() && c.Holds() != 3
				})
			})
		}
	}
}

// lateLinks delay one call about a key: Redis runs it once released is closed. With ran it runs the
// call at once, and only the reply is late.
type lateLinks struct {
	transport.Links
	key      string
	ran      bool
	delayed  atomic.Bool
	released chan struct{}
	done     chan struct{} // closed once Redis has run the call
}

func (l *lateLinks) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) ([]byte, bool, error) {
	if !bytes.Contains(command, []byte(l.key)) || !l.delayed.CompareAndSwap(false, true) {
		return l.Links.Script(until, writeBy, db, slot, command, dst)
	}
	command = bytes.Clone(command)
	run := func() {
		l.Links.Script(time.Now().Add(20*time.Second), nil, db, slot, command, nil)
		close(l.done)
	}
	if l.ran {
		run()
	} else {
		go func() { <-l.released; run() }()
	}
	select {
	case <-l.released:
	case <-time.After(time.Until(until)):
	}
	return dst, true, os.ErrDeadlineExceeded
}

// TestR26QuorumUndoesALateKey: Redis answers late about one of three keys. The command has a quorum
// without it, and nobody keeps that key.
func TestR26QuorumUndoesALateKey(t *testing.T) {
	for _, ran := range []bool{false, true} {
		t.Run(fmt.Sprintf("ran %t", ran), func(t *testing.T) {
			t.Parallel()
			l := leashOf(t)
			keys, c := newKeys(3), l.connect()
			late := &lateLinks{Links: l.Redis.Links, key: keys[1], ran: ran, released: make(chan struct{}),
				done: make(chan struct{})}
			l.Redis.Links = late
			_, r := c.AcquireAll(t.Context(), Options{Mode: script.Plain, TTL: time.Minute}, keys, 2)
			if r.Kind != Granted || !late.delayed.Load() {
				t.Errorf("got %+v", r)
			}
			close(late.released)
			<-late.done
			eventually(t, "nobody has that key", func() bool {
				return slices.Equal(l.taken(keys), []bool{true, false, true}) && c.Holds() == 2
			})
		})
	}
}
