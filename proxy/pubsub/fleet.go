package pubsub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"leash/internal/guard"
)

// The Leashes before one Redis know each other by a channel on which each says once in a while that
// it is there. Redis counts a Leash as one subscriber of a channel, however many clients it has, so
// a Leash asks the others for their counts there.
const (
	fleetChannel = "leash:fleet"
	hereEvery    = time.Second
	hereFor      = 3500 * time.Millisecond // a Leash that is silent for longer is gone
	askFor       = 100 * time.Millisecond  // a count waits so long for the others
	inboxSize    = 1024                    // messages that wait to be looked at; more are dropped
)

// What a message on the fleet's channel is.
const (
	fleetHere = "here"
	fleetGone = "gone"
	fleetAsk  = "ask"
	fleetTell = "tell"
)

// fleetMessage is a message on the fleet's channel, in JSON. Names are base64, for they may be any
// bytes.
type fleetMessage struct {
	What    string
	From    string
	To      string `json:",omitempty"` // of an answer
	Number  uint64 `json:",omitempty"` // of a question
	Kind    Kind
	Names   [][]byte          `json:",omitempty"` // that are asked for; none: all that match Pattern
	Pattern []byte            `json:",omitempty"`
	Entries []otherNameReport `json:",omitempty"`
}

// otherNameReport is what another Leash has said of one name.
type otherNameReport struct {
	Name    []byte
	Clients int            // that are subscribed
	Held    map[string]int // subscriptions of that Leash at masters, by nodeName
}

// fleet is what a Leash knows of the others.
type fleet struct {
	id    string // immutable
	inbox chan []byte

	// mu guards the fields below. Never held across I/O.
	mu      sync.Mutex
	running bool
	others  map[string]time.Time // when each was heard last
	number  uint64               // of the last question
	queries map[uint64]*fleetQuery
	warned  time.Time
}

// fleetQuery is one that the others have not all answered.
type fleetQuery struct {
	left    map[string]bool // who has not answered
	entries []otherNameReport
	done    chan struct{} // closed when all have
}

func newFleet() *fleet {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	return &fleet{
		id: hex.EncodeToString(id[:]), inbox: make(chan []byte, inboxSize),
		others: make(map[string]time.Time), queries: make(map[uint64]*fleetQuery),
	}
}

// Run lets the other Leashes before the same Redis know of this one and answers their questions,
// until ctx is done. announced is called once they have been told, or cannot be.
func (x *Exchange) Run(ctx context.Context, announced func()) error {
	f := x.fleet
	ready, cancel := x.Subscribe(fleetChannel, true, false, f.receive)
	defer cancel()
	tick := time.NewTicker(hereEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			x.leaveFleet()
			return nil
		case <-ready:
			ready = nil
			f.start()
			x.send(ctx, fleetMessage{What: fleetHere})
			announced()
		case <-tick.C:
			if ready == nil {
				x.send(ctx, fleetMessage{What: fleetHere})
			}
		case raw := <-f.inbox:
			_ = guard.Do(x.log, "message of another leash", func() { x.handle(ctx, raw) })
		}
	}
}

func (f *fleet) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = true
}

func (x *Exchange) leaveFleet() {
	ctx, cancel := context.WithTimeout(context.Background(), hereEvery)
	defer cancel()
	x.send(ctx, fleetMessage{What: fleetGone})
}

// receive keeps a message for Run. It does not block.
func (f *fleet) receive(raw []byte) {
	if raw == nil {
		return
	}
	select {
	case f.inbox <- raw:
	default:
	}
}

// send publishes a message. An error is only logged: the next message comes within hereEvery.
func (x *Exchange) send(ctx context.Context, m fleetMessage) bool {
	m.From = x.fleet.id
	raw, err := json.Marshal(m)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, hereEvery)
		defer cancel()
		err = x.up.Client().Publish(ctx, fleetChannel, raw).Err()
	}
	if err != nil && ctx.Err() == nil {
		x.log.Debug("no word to the other leashes", "channel", fleetChannel, "err", err)
	}
	return err == nil
}

// handle takes a message of another Leash. What is not understood is left alone: anybody may publish.
func (x *Exchange) handle(ctx context.Context, raw []byte) {
	var m fleetMessage
	f := x.fleet
	if json.Unmarshal(raw, &m) != nil || m.From == "" || m.From == f.id || m.Kind >= kinds {
		return
	}
	isNew := f.note(m)
	switch m.What {
	case fleetHere:
		if isNew {
			x.send(ctx, fleetMessage{What: fleetHere})
		}
	case fleetAsk:
		x.send(ctx, fleetMessage{What: fleetTell, To: m.From, Number: m.Number, Kind: m.Kind, Entries: x.report(m)})
	case fleetTell:
		if m.To == f.id {
			f.answered(m)
		}
	}
}

// note records that a Leash lives, or has gone, and reports whether it was not known.
func (f *fleet) note(m fleetMessage) (isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.What == fleetGone {
		delete(f.others, m.From)
		return false
	}
	_, known := f.others[m.From]
	f.others[m.From] = time.Now()
	return !known
}

func (f *fleet) answered(m fleetMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queries[m.Number]
	if q == nil {
		return
	}
	q.entries = append(q.entries, m.Entries...)
	delete(q.left, m.From)
	if len(q.left) == 0 {
		delete(f.queries, m.Number)
		close(q.done)
	}
}

// ask begins a question to all who are there; nil when nobody is.
func (f *fleet) ask() (q *fleetQuery, number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q = &fleetQuery{left: make(map[string]bool), done: make(chan struct{})}
	for id, heard := range f.others {
		if time.Since(heard) > hereFor {
			delete(f.others, id)
			continue
		}
		q.left[id] = true
	}
	if !f.running || len(q.left) == 0 {
		return nil, 0
	}
	f.number++
	f.queries[f.number] = q
	return q, f.number
}

// end gives up a question and returns what has been answered. Once a minute it logs who has not.
func (f *fleet) end(q *fleetQuery, number uint64, log *slog.Logger) []otherNameReport {
	f.mu.Lock()
	delete(f.queries, number)
	silent := len(q.left)
	entries := q.entries
	warn := silent > 0 && (f.warned.IsZero() || time.Since(f.warned) > warnEvery)
	if warn {
		f.warned = time.Now()
	}
	f.mu.Unlock()
	if warn {
		log.Warn("another leash did not report its subscribers: PUBSUB counts it as one", "leashes", silent, "within", askFor)
	}
	return entries
}
