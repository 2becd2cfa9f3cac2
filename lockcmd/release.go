package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

const releaseName = "LOCK.RELEASE"

// release runs LOCK.RELEASE.
func (c *Carrier) release(_ context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(releaseName, args, releaseWords)
	if msg != "" {
		return appendError(dst, msg)
	}
	return c.unlock(dst, key, o)
}

// unlock releases the hold that the options mean, and answers.
func (c *Carrier) unlock(dst []byte, key string, o options) []byte {
	until := c.service.deadline()
	if o.id != "" {
		// Any connection that repeats the command must find the answer.
		return c.releaseRemotely(dst, key, o, until)
	}
	h := c.ownHold(key, o)
	if h == nil && (o.Token != 0 || o.Owner != "") {
		h = c.service.holds.Find(c.id(key), o.Means)
		if h == nil {
			return c.releaseRemotely(dst, key, o, until)
		}
	}
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	switch code, lost, msg := c.releaseHere(h, o.all, until); {
	case lost != "":
		return appendError(dst, c.lossText(h, lost))
	case msg != "":
		return appendError(dst, msg)
	case code != script.NoSuchHold:
		return appendInt(dst, code)
	case o.Token != 0 || o.Owner != "": // it has moved, and the event is still on its way
		return c.releaseRemotely(dst, key, o, until)
	}
	return appendError(dst, msgNotHeld)
}

// releaseHere releases h, which this Leash carries, for a command on any of its connections. The
// code is script.HoldEnded, script.CountsRemain or script.NoSuchHold. If h was found to be lost,
// lost is the reason. Otherwise a nonempty message is the error to answer.
func (c *Carrier) releaseHere(h *hold.Hold, all bool, until time.Time) (code int64, lost, msg string) {
	s := c.service
	defer func() {
		if msg == msgReleaseLater || msg == msgRefused {
			s.stats.timeouts.Add(1)
		}
	}()
	if !h.LockRequests(until) {
		return 0, "", s.releaseLater(h, all)
	}
	rel := s.beginRelease(h, all)
	if rel == nil {
		h.UnlockRequests()
		return script.NoSuchHold, "", ""
	}
	code, err := rel.send(until)
	if transport.IsSilence(err) {
		s.spawn(rel.finish) // finish unlocks the requests
		return 0, "", msgReleaseLater
	}
	defer h.UnlockRequests()
	switch {
	case err != nil:
		rel.resume()
		return 0, "", transport.ErrorText(err)
	case code != script.NoSuchHold:
		return code, "", ""
	}
	if lost, err = rel.resolveMissing(); err != nil {
		return 0, "", msgRefused
	}
	return script.NoSuchHold, lost, ""
}

// releaseLater releases h after the request in progress about it is answered, if h is still held
// then. It returns the error to answer.
func (s *Service) releaseLater(h *hold.Hold, all bool) (msg string) {
	switch reserved, inProgress := h.ReserveRelease(); {
	case inProgress:
		return msgReleaseLater
	case !reserved:
		return msgRefused
	}
	s.spawn(func() {
		defer h.ClearRelease()
		s.releaseInTurn(h, all, "")
	})
	return msgReleaseLater
}

// releaseInTurn releases h after the requests in progress about it, and repeats that until Redis
// answers. putBackID is that of the request.
func (s *Service) releaseInTurn(h *hold.Hold, all bool, putBackID string) {
	for !h.LockRequests(s.deadline()) {
		if h.State() == hold.Over || s.redis.StoppedWithin(0) {
			return
		}
	}
	s.releaseLocked(h, all, putBackID)
}

// releaseLocked is releaseInTurn for a hold whose requests the caller has locked. It unlocks them.
func (s *Service) releaseLocked(h *hold.Hold, all bool, putBackID string) {
	rel := s.beginRelease(h, all)
	if rel == nil {
		h.UnlockRequests() // it has ended by itself
		return
	}
	rel.putBackID = putBackID
	rel.finish() // finish unlocks the requests
}

// putBack takes back one acquire of a hold. Its ID counts as unused afterwards: a repetition of the
// command counts again.
func (s *Service) putBack(h *hold.Hold, id string) { s.releaseInTurn(h, false, script.RecordID(id)) }

// ownHold returns this connection's newest hold that the options mean.
func (c *Carrier) ownHold(key string, o options) *hold.Hold {
	return c.NewestReported(c.id(key), o.Means)
}
