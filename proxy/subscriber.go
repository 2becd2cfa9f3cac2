package proxy

import (
	"time"

	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// subscriberLimits say how much a subscriber may leave unread. They are Redis's
// client-output-buffer-limit for the class pubsub.
type subscriberLimits struct {
	hard int           // bytes; above this, closed at once
	soft int           // bytes; above this for longer than over, closed
	over time.Duration // see soft
}

var defaultSubscriberLimits = subscriberLimits{hard: 32 << 20, soft: 8 << 20, over: time.Minute}

// subscriber is the session as pubsub.Exchange sees it.
type subscriber session

var _ pubsub.Client = (*subscriber)(nil)

// Message implements pubsub.Client. It delivers a frame in the session's protocol. It closes a
// client that leaves too much unread. So other clients need not wait, and the memory stays bounded.
func (c *subscriber) Message(frame []byte) upstream.Flusher {
	s := (*session)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messageLocked(frame)
}

// notice delivers a frame like Message, but only to a RESP3 client. ok is false for others.
func (s *session) notice(frame []byte) (flush upstream.Flusher, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.router.Lane.RESP3 {
		return nil, false
	}
	return s.messageLocked(frame), true
}

func (s *session) messageLocked(frame []byte) upstream.Flusher {
	if s.out.DroppedLocked() {
		return nil
	}
	if s.calls.UnreadLocked()+len(frame) > s.server.subscriberLimits.hard {
		s.out.DropLocked() // no more output is kept for it
		return (*slowSubscriber)(s)
	}
	return s.calls.MessageLocked(frame, s.router.Lane.RESP3)
}

// Close implements pubsub.Client.
func (c *subscriber) Close(reason string) { (*session)(c).kill(reason, false) }

// slowSubscriber is a session that has left too many messages unread. Its Flush closes it, because
// Flush is called without the mutexes.
type slowSubscriber session

func (c *slowSubscriber) Flush() { (*session)(c).closeSlowSubscriber() }

func (s *session) closeSlowSubscriber() {
	s.server.stats.subscriberLimit.Add(1)
	s.server.log.Warn("subscriber does not read its messages, closing it", "session", s.id, "client",
		s.conn.RemoteAddr())
	s.kill("output limit of subscribers", false)
}

// isSlowSubscriber reports whether too many messages have waited for the client for too long. Only
// runSessionChecks calls it.
func (s *session) isSlowSubscriber(now time.Time) bool {
	s.mu.Lock()
	waits := s.calls.UnreadLocked()
	s.mu.Unlock()
	limits := s.server.subscriberLimits
	switch {
	case waits <= limits.soft:
		s.slowSince = time.Time{}
	case s.slowSince.IsZero():
		s.slowSince = now
	}
	return !s.slowSince.IsZero() && now.Sub(s.slowSince) > limits.over
}
