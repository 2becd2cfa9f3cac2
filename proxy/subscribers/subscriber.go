package subscribers

import (
	"time"

	"leash/proxy/links"
	"leash/proxy/pubsub"
	"leash/proxy/route"
)

// Limits say how much a subscriber may leave unread. They are Redis's client-output-buffer-limit
// for the class pubsub.
type Limits struct {
	Hard int           // bytes; above this, closed at once
	Soft int           // bytes; above this for longer than Over, closed
	Over time.Duration // see Soft
}

// DefaultLimits are those of Redis.
var DefaultLimits = Limits{Hard: 32 << 20, Soft: 8 << 20, Over: time.Minute}

// Session is what a Subscriber needs of its session. Its methods do not block.
type Session interface {
	// Room returns the error for a user who may not have so many more subscriptions. It is empty if
	// the user may. Only the session's loop calls it.
	Room(more int) (refusal string)
	// Count is called with the number of subscriptions when that may have changed. Only the
	// session's loop calls it.
	Count(subscriptions int)
	// End ends the session for a reason. Safe for concurrent use.
	End(reason string)
	// EndSlow ends the session, because its client does not read its messages. It logs that. Safe
	// for concurrent use.
	EndSlow()
	// Go runs f on a goroutine of the session. It returns false when the server has stopped.
	Go(what string, f func()) bool
}

// Config is what a Subscriber uses of its session and of the server.
type Config struct {
	Session       Session
	Exchange      *pubsub.Exchange
	Limits        *Limits
	*route.Router // the session's: its calls, its output and its mutex
}

// Subscriber is what a session has once it subscribes, or gets a message for another reason. A nil
// Subscriber has no subscriptions. Only the session's loop calls the methods that do not say
// otherwise.
type Subscriber struct {
	Config
	listener *pubsub.Listener
	slow     time.Time // since when too much waits; used by IsSlow only
}

// New returns a subscriber without subscriptions.
func New(c Config) *Subscriber {
	s := &Subscriber{Config: c}
	s.listener = c.Exchange.Listener(s)
	return s
}

var _ pubsub.Client = (*Subscriber)(nil)

// Tally returns the number of subscriptions of each kind. The caller does not hold the session's
// mutex. Safe for concurrent use.
func (s *Subscriber) Tally() (channels, patterns, shards int) {
	if s == nil {
		return 0, 0, 0
	}
	return s.listener.Tally()
}

// Len is the number of subscriptions. It may be called as Tally.
func (s *Subscriber) Len() int {
	channels, patterns, shards := s.Tally()
	return channels + patterns + shards
}

// Drop ends all subscriptions without confirmations.
func (s *Subscriber) Drop() {
	if s != nil {
		s.listener.UnsubscribeAll()
		s.Session.Count(0)
	}
}

// Message implements pubsub.Client. It delivers a frame in the session's protocol. It ends a client
// that leaves too much unread. So other clients need not wait, and the memory stays bounded.
func (s *Subscriber) Message(frame []byte) links.Flusher {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.messageLocked(frame)
}

// Close implements pubsub.Client.
func (s *Subscriber) Close(reason string) { s.Session.End(reason) }

// Notify gives a RESP3 client a push that is no message of a channel, and flushes it. It returns
// false for other clients, and does nothing. Safe for concurrent use.
func (s *Subscriber) Notify(frame []byte) bool {
	s.Mu.Lock()
	if !s.Router.Lane.RESP3 {
		s.Mu.Unlock()
		return false
	}
	flush := s.messageLocked(frame)
	s.Mu.Unlock()
	if slow, ok := flush.(*slow); ok {
		s.Session.Go("flush", slow.Flush) // it logs
		return true
	}
	s.Out.Flush()
	return true
}

func (s *Subscriber) messageLocked(frame []byte) links.Flusher {
	if s.Out.DroppedLocked() {
		return nil
	}
	if s.Calls.UnreadLocked()+len(frame) > s.Limits.Hard {
		s.Out.DropLocked() // no more output is kept for it
		return (*slow)(s)
	}
	return s.Calls.MessageLocked(frame, s.Router.Lane.RESP3)
}

// slow is a subscriber that has left too many messages unread. Its Flush ends it, because Flush is
// called without the mutexes.
type slow Subscriber

func (s *slow) Flush() { s.Session.EndSlow() }

// IsSlow reports whether too many messages have waited for the client for too long. Only one
// goroutine calls it, but at any time.
func (s *Subscriber) IsSlow(now time.Time) bool {
	if s == nil {
		return false
	}
	s.Mu.Lock()
	waits := s.Calls.UnreadLocked()
	s.Mu.Unlock()
	switch {
	case waits <= s.Limits.Soft:
		s.slow = time.Time{}
	case s.slow.IsZero():
		s.slow = now
	}
	return !s.slow.IsZero() && now.Sub(s.slow) > s.Limits.Over
}
