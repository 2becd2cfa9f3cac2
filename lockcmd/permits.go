package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"time"
)

const (
	semAcquireName = "SEM.ACQUIRE"
	semReleaseName = "SEM.RELEASE"
)

// maxCountOption is how many permits one ACQUIRE may ask for: a script must not keep Redis for
// long.
const maxCountOption = 1000

// acquirePermits is SEM.ACQUIRE.
func (c *Carrier) acquirePermits(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	w, count, msg := s.parsePermitWish(args)
	w.db = c.db
	switch {
	case msg != "":
		return appendError(dst, msg)
	case s.draining.Load():
		return appendError(dst, msgDraining)
	}
	s.giveWay(ctx)
	t := c.newPermitTry(w, max(count, 1))
	if w.id != "" && t.unsettled() {
		return c.timeout(dst, msgRefused)
	}
	line := lineID{w.lock(), permitChannel(w.key)}
	first := w.id != "" && s.lines.waiting(line) > 0 && t.mayHave(ctx)
	r := c.lookOrStand(ctx, line, patience{w.wait, w.block}, first, t.send)
	if r.kind == granted {
		switch msg := t.settle(ctx, r.sent); {
		case msg == "":
			return appendPermits(dst, t.permits, count > 0)
		case msg == msgShort, msg == msgGone, msg == msgRefused:
			return c.timeout(dst, msg)
		default:
			return appendError(dst, msg)
		}
	}
	if t.late || r.kind == unknown || len(t.moved) > 0 {
		t.undo()
	}
	switch {
	case r.kind == unknown:
		return c.timeout(dst, msgTimeout)
	case r.kind == failed:
		return appendError(dst, r.text)
	case r.text != "":
		return c.timeout(dst, r.text)
	}
	return appendNil(dst)
}

// parsePermitWish reads what a SEM.ACQUIRE asks for; count is 0 if there is no COUNT.
func (s *Service) parsePermitWish(args [][]byte) (w wish, count int64, msg string) {
	if len(args) < 2 {
		return w, 0, msgArity(semAcquireName)
	}
	o, msg := parseOptions(args[2:], permitOptions)
	if msg != "" {
		return w, 0, msg
	}
	if w, msg = s.wishOf(semAcquireName, o); msg != "" {
		return w, 0, msg
	}
	w.key, w.mode = string(args[1]), permit
	return w, o.count, s.keyError(w.key)
}

// mayHave reports whether Redis has the permits that the try's ID stands for, which it then
// repeats; also when it does not say. All others wait behind those who wait already.
func (t *permitTry) mayHave(ctx context.Context) bool {
	s := t.carrier.service
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	has, err := s.database(t.wish.db).HExists(ctx, semaphoreKeys(t.wish.key)[2], t.permits[0]).Result()
	return err != nil || has
}

// unsettled reports whether a release or a move of one of the permits, which this connection took
// under the same ID, is still under way.
func (t *permitTry) unsettled() bool {
	until := t.carrier.service.deadline()
	for _, p := range t.permits {
		if !t.carrier.awaitSettled(t.wish.lock(), permit, p, until) {
			return true
		}
		if h := t.carrier.newest(t.wish.lock(), isPermit(p)); h != nil && !h.is(held) {
			return true
		}
	}
	return false
}

func appendPermits(dst []byte, permits []string, list bool) []byte {
	if list {
		dst = appendArray(dst, len(permits))
	}
	for _, p := range permits {
		dst = appendBulk(dst, p)
	}
	return dst
}

// releasePermits is SEM.RELEASE.
func (c *Carrier) releasePermits(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if len(args) < 2 {
		return appendError(dst, msgArity(semReleaseName))
	}
	lock := c.id(string(args[1]))
	var permits []string
	for _, arg := range args[2:] {
		p, ok := parsePermit(arg)
		if !ok {
			return appendError(dst, msgPermit)
		}
		permits = append(permits, p)
	}
	if msg := s.keyError(lock.key); msg != "" {
		return appendError(dst, msg)
	}
	if len(permits) == 0 {
		h := c.newestLasting(lock, isPermit(""))
		if h == nil {
			return appendError(dst, msgNoPermit)
		}
		permits = []string{h.owner()}
	}
	given, until := int64(0), s.deadline()
	for _, p := range permits {
		ok, msg := s.releasePermit(c, lock, p, until)
		if msg != "" {
			return appendError(dst, msg)
		}
		if ok {
			given++
		}
	}
	if given == 0 {
		return appendError(dst, msgNoPermit)
	}
	return appendInt(dst, given)
}

// releasePermit gives one permit back, whoever holds it. A nonempty message is the error to answer.
func (s *Service) releasePermit(c *Carrier, lock lockID, id string, until time.Time) (given bool, msg string) {
	h := s.find(lock, isPermit(id))
	if h == nil {
		return s.revokePermit(lock, id, until)
	}
	if !h.open(until) {
		s.stats.timeouts.Add(1)
		return false, s.releaseLater(h, true)
	}
	e := s.beginEnding(h, true)
	if e == nil {
		h.close()
		return false, ""
	}
	code, err := e.send(until)
	switch {
	case errors.Is(err, errUnknown), errors.Is(err, errRefused):
		s.stats.timeouts.Add(1)
		s.spawn(e.finish) // it has the gate
		return false, msgReleaseLater
	case err != nil:
		e.resume()
		h.close()
		return false, scriptError(err)
	}
	defer h.close()
	if code == endedIt {
		return true, ""
	}
	switch lost, err := e.missing(); {
	case err != nil:
		s.stats.timeouts.Add(1)
		return false, msgRefused
	case lost != "" && h.carrier == c:
		return false, msgLost(lock.key, lost)
	}
	return false, ""
}

// revokePermit gives back a permit that this Leash does not carry. It reads who does, calls with
// what it read, and starts over if that has changed (R13).
func (s *Service) revokePermit(lock lockID, id string, until time.Time) (given bool, msg string) {
	r := &request{script: permitRevokeScript, db: lock.db}
	token, carrier, ttl := "", "", int64(0)
	for range 16 {
		n, _ := strconv.ParseInt(token, 10, 64)
		r.keys, r.args = semaphoreKeys(lock.key), words(id, token, carrier, permitChannel(lock.key), s.cfg.publishMode())
		if carrier != "" {
			r.keys = append(r.keys, tombstoneKey(lock.key, n, carrier))
			keep := max(ttl, s.cfg.WatchdogTimeout.Milliseconds())
			r.args = append(r.args, decimal(keep), carrierChannel(carrier), newsText("released", n, carrier, lock.key))
		} else {
			r.args = append(r.args, "0", "", "")
		}
		reply, err := s.ask(r, until)
		if err != nil {
			return s.revokeLater(r, err)
		}
		switch code := numbers(reply)[0]; {
		case code == endedIt, code == notThere && r.doubt:
			s.stats.releases.Add(1)
			return true, ""
		case code == notThere:
			return false, ""
		}
		token, carrier, ttl = word(reply, 1), word(reply, 2), numbers(reply)[3]
	}
	return false, msgRefused
}

// revokeLater is the answer to a release that has failed. While its outcome is unknown it is
// repeated (R26).
func (s *Service) revokeLater(r *request, err error) (given bool, msg string) {
	switch {
	case errors.Is(err, errUnknown):
		s.stats.timeouts.Add(1)
		limit := time.Now().Add(s.cfg.WatchdogTimeout)
		s.spawn(func() {
			for time.Now().Before(limit) {
				_, err := s.ask(r, s.deadline())
				if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) || s.stopped(100*time.Millisecond) {
					return
				}
			}
		})
		return false, msgReleaseLater
	case errors.Is(err, errRefused):
		s.stats.timeouts.Add(1)
		return false, msgRefused
	}
	return false, scriptError(err)
}
