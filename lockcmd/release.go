package lockcmd

import (
	"context"
	"errors"
	"time"

	"leash/lockcmd/script"
)

const releaseName = "LOCK.RELEASE"

// release runs LOCK.RELEASE.
func (c *Carrier) release(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) < 2 {
		return appendError(dst, msgArity(releaseName))
	}
	o, msg := parseOptions(args[2:], releaseWords)
	if msg == "" {
		_, msg = o.requestedMode()
	}
	if msg == "" {
		msg = c.service.keyError(string(args[1]))
	}
	if msg != "" {
		return appendError(dst, msg)
	}
	return c.unlock(dst, string(args[1]), o)
}

// unlock releases the hold that the options mean, and answers.
func (c *Carrier) unlock(dst []byte, key string, o options) []byte {
	until := c.service.deadline()
	if o.id != "" {
		// Any connection that repeats the command must find the answer.
		return c.releaseRemotely(dst, key, o, until)
	}
	h := c.ownHold(key, o)
	if h == nil && (o.token != 0 || o.owner != "") {
		h = c.service.find(c.id(key), o.meansHold)
		if h == nil {
			return c.releaseRemotely(dst, key, o, until)
		}
	}
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	if !h.lockRequests(until) {
		return c.timeout(dst, c.service.releaseLater(h, o.all))
	}
	reply := c.replyRelease(dst, h, o.all, until)
	if (o.token != 0 || o.owner != "") && string(reply[len(dst):]) == notHeldReply {
		// It has moved, and the event is still on its way.
		return c.releaseRemotely(dst, key, o, until)
	}
	return reply
}

// releaseLater releases h after the request in progress about it is answered, if h is still held
// then. It returns the error to answer.
func (s *Service) releaseLater(h *hold, all bool) (msg string) {
	c := h.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.state == releasing:
		return msgReleaseLater // the release in progress does it
	case h.state != held || h.releaseWaiting:
		// Only one release may have an unknown outcome. With more, nobody knows what remains.
		return msgRefused
	}
	h.releaseWaiting = true
	s.spawn(func() {
		defer h.clearReleaseWaiting()
		for !h.lockRequests(time.Now().Add(100 * time.Millisecond)) {
			if h.inState(over) || s.redis.StoppedWithin(0) {
				return
			}
		}
		if rel := s.beginRelease(h, all); rel != nil {
			rel.finish()
			return
		}
		h.unlockRequests()
	})
	return msgReleaseLater
}

// meansHold reports whether the options mean h.
func (o options) meansHold(h *hold) bool {
	return (o.token == 0 || h.token == o.token) && (o.owner == "" || h.isOf(o.owner)) && o.meansMode(h.mode())
}

// ownHold returns this connection's newest hold that the options mean. It skips holds that the
// client has not been told of: a MACQUIRE may still give some back.
func (c *Carrier) ownHold(key string, o options) *hold {
	return c.newestLive(c.id(key), func(h *hold) bool { return o.meansHold(h) && !h.unreportedLocked() })
}

// replyRelease releases h, unlocks its requests and answers.
func (c *Carrier) replyRelease(dst []byte, h *hold, all bool, until time.Time) []byte {
	s := c.service
	rel := s.beginRelease(h, all)
	if rel == nil {
		h.unlockRequests()
		return appendError(dst, msgNotHeld)
	}
	switch code, err := rel.send(until); {
	case errors.Is(err, script.ErrUnknown), errors.Is(err, script.ErrRefused):
		s.spawn(rel.finish) // finish unlocks the requests
		return c.timeout(dst, msgReleaseLater)
	case err != nil:
		rel.resume()
		h.unlockRequests()
		return appendError(dst, script.ErrorText(err))
	default:
		defer h.unlockRequests()
		return rel.reply(c, dst, code)
	}
}
