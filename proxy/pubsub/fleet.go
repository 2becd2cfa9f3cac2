package pubsub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"leash/internal/guard"
	"leash/internal/limits"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// The Leashes in front of one Redis find each other on a channel. Each one publishes there once a
// second. Redis counts a Leash as one subscriber of a channel, for any number of clients. So a
// Leash asks the others on this channel for their numbers of clients.
const (
	fleetChannel  = "leash:fleet"
	hereEvery     = time.Second
	hereFor       = 3500 * time.Millisecond // a Leash that is silent for longer counts as gone
	answerTimeout = 100 * time.Millisecond  // how long a count waits for the others
	inboxSize     = 1024                    // messages that wait for Run; more are dropped
)

// Kinds of messages on the fleet's channel.
const (
	fleetHere   = "here"
	fleetGone   = "gone"
	fleetAsk    = "ask"
	fleetReport = "tell"
)

// fleetMessage is a message on the fleet's channel, in JSON. Names are base64, because they may
// contain any bytes.
type fleetMessage struct {
	What   string
	From   string
	To     string `json:",omitempty"` // in an answer
	Number uint64 `json:",omitempty"` // in a question
	Kind   Kind
	// the names asked for; if there are none, all that match Pattern
	Names   [][]byte    `json:",omitempty"`
	Pattern []byte      `json:",omitempty"`
	Entries []NameCount `json:",omitempty"`
}

// fleet is what a Leash knows about the other Leashes.
type fleet struct {
	id     string // immutable
	inbox  chan []byte
	warned limits.Interval // between warnings about silent Leashes

	// mu guards the fields below. Never held across I/O.
	mu      sync.Mutex
	others  map[string]time.Time // when each one last sent a message
	number  uint64               // number of the last question
	queries map[uint64]*fleetQuery
}

// fleetQuery is a question that some of the others have not answered.
type fleetQuery struct {
	left    map[string]bool // Leashes that have not answered
	entries []NameCount
	done    chan struct{} // closed when all have answered
}

func newFleet() *fleet {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	return &fleet{
		id: hex.EncodeToString(id[:]), inbox: make(chan []byte, inboxSize),
		others: make(map[string]time.Time), queries: make(map[uint64]*fleetQuery),
	}
}

// Run announces this Leash to the other Leashes of the same Redis and answers their questions,
// until ctx is done. It calls announced once the announcement is sent or has failed.
func (x *Exchange) Run(ctx context.Context, announced func()) error {
	f := x.fleet
	ready, cancel := x.Subscribe(fleetChannel, true, false, f.receive)
	defer cancel()
	tick := time.NewTicker(hereEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			x.send(context.WithoutCancel(ctx), fleetMessage{What: fleetGone})
			return nil
		case <-ready:
			ready = nil
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

// receive queues a message for Run. It does not block.
func (f *fleet) receive(raw []byte) {
	if raw == nil {
		return
	}
	select {
	case f.inbox <- raw:
	default:
	}
}

// send publishes a message. It only logs an error, because another message follows within
// hereEvery.
func (x *Exchange) send(ctx context.Context, m fleetMessage) bool {
	m.From = x.fleet.id
	raw, err := json.Marshal(m)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, hereEvery)
		defer cancel()
		err = x.publish(ctx, raw)
	}
	if err != nil && ctx.Err() == nil {
		x.log.Debug("cannot publish to the other leashes", "channel", fleetChannel, "err", err)
	}
	return err == nil
}

// publish publishes a message of this Leash, as its own user.
func (x *Exchange) publish(ctx context.Context, raw []byte) error {
	n := x.up.AnyNode()
	if n == nil {
		return links.ErrUnreachable
	}
	command := resp.AppendCommand(nil, "PUBLISH", fleetChannel, string(raw))
	reply, err := n.Link(x.up.Dialer.ServiceLane()).Ask(ctx, command)
	if err == nil {
		err = resp.ErrorIn(reply)
	}
	return err
}

// handle handles a message of another Leash. It ignores messages that it does not understand,
// because any client may publish.
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
		answer := fleetMessage{What: fleetReport, To: m.From, Number: m.Number, Kind: m.Kind}
		for _, one := range x.own(m) {
			answer.Entries = append(answer.Entries, *one)
		}
		x.send(ctx, answer)
	case fleetReport:
		if m.To == f.id {
			f.answered(m)
		}
	}
}

// note records that a Leash is alive or has gone. It reports whether the Leash is new.
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

// askFleet asks all known Leashes a question, and returns the answers that come in time. Once a
// minute it logs how many Leashes have not answered.
func (x *Exchange) askFleet(ctx context.Context, m fleetMessage) []NameCount {
	f := x.fleet
	q := f.ask(&m)
	if q == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if x.send(ctx, m) {
		select {
		case <-q.done:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	delete(f.queries, m.Number)
	silent, entries := len(q.left), q.entries
	f.mu.Unlock()
	if silent > 0 && f.warned.Due(time.Now(), warnEvery) {
		x.log.Warn("another leash did not report its subscribers: PUBSUB counts it as one", "leashes", silent,
			"within", answerTimeout)
	}
	return entries
}

// ask begins a question to all known Leashes, and gives it a number. It returns nil if there are
// none.
func (f *fleet) ask(m *fleetMessage) *fleetQuery {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := &fleetQuery{left: make(map[string]bool), done: make(chan struct{})}
	for id, heard := range f.others {
		if time.Since(heard) > hereFor {
			delete(f.others, id)
			continue
		}
		q.left[id] = true
	}
	if len(q.left) == 0 {
		return nil
	}
	f.number++
	m.Number = f.number
	f.queries[f.number] = q
	return q
}
