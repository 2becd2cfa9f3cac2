package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/script"
	"leash/proxy/resp"
)

const notifyName = "LOCK.NOTIFY"

// After LOCK.NOTIFY ON, a client gets a push for each notice about its holds: "lock", one of these
// words, the key and the token. A permit of a semaphore takes the place of the token.
const (
	lostNotice = "lost" // the hold with this token was lost
	// somebody waits for the lock of the hold with this token; pushed once for each hold
	wantedNotice = "wanted"
	// the Leash stops; its key is empty, and in the place of the token is for how many ms the Leash
	// waits for holders
	drainingNotice = "draining"
)

// notify runs LOCK.NOTIFY. Notices about present waiters come after its answer.
func (c *Carrier) notify(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 2 {
		return appendError(dst, msgArity(notifyName))
	}
	switch resp.Word(args[1]) {
	case "OFF":
		c.StopPushes()
	case "ON":
		if !c.host.Push(nil) {
			return appendError(dst, msgNoPushes)
		}
		c.mu.Lock()
		if !c.notifies.Swap(true) {
			c.service.events.notifying.Add(1)
		}
		c.answering, c.unanswered = true, c.holdsLocked()
		for _, h := range c.unanswered {
			h.unanswered, h.wanted = true, false
		}
		c.mu.Unlock()
	default:
		return appendError(dst, msgSyntax)
	}
	return append(dst, "+OK\r\n"...)
}

// StopPushes turns LOCK.NOTIFY off. The host calls it when the client's protocol has no pushes any
// more.
func (c *Carrier) StopPushes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopPushesLocked()
}

func (c *Carrier) stopPushesLocked() {
	if c.notifies.Swap(false) {
		c.service.events.notifying.Add(-1)
	}
	c.pendingPushes = nil
}

// beginAnswer notes that the client has not been told of holds made from now on.
func (c *Carrier) beginAnswer() {
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answering = true
}

// Answered reports that the client has got the reply of the last Do. Notices about the holds in
// that reply follow now. A Host that pushes must call it after each Do.
func (c *Carrier) Answered() {
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	pushes, unanswered := c.pendingPushes, c.unanswered
	c.answering, c.pendingPushes, c.unanswered = false, nil, nil
	for _, h := range unanswered {
		h.unanswered = false
	}
	c.mu.Unlock()
	for _, frame := range pushes {
		c.host.Push(frame)
	}
	for _, h := range unanswered {
		h.checkWanted()
	}
}

// holdBackPushesLocked delays notices about h, a new hold of the carrier, until the current answer
// was sent.
func (c *Carrier) holdBackPushesLocked(h *hold) {
	if c.answering && c.notifies.Load() {
		h.unanswered = true
		c.unanswered = append(c.unanswered, h)
	}
}

// checkWanted tells the owner of h if somebody on this Leash waits for the lock.
func (h *hold) checkWanted() {
	if h.carrier.notifies.Load() && h.carrier.service.waiters(h.lock()) > 0 {
		h.reportWanted()
	}
}

// reportWanted tells the owner of h once that somebody waits for the lock.
func (h *hold) reportWanted() {
	c := h.carrier
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	// Other states are checked again later.
	say := !h.wanted && h.state.isReliedOn() && h.mode() != script.Permit && !h.unreportedLocked()
	h.wanted = h.wanted || say
	c.mu.Unlock()
	if say {
		h.push(wantedNotice)
	}
}

// push sends a notice about h, after the answer that tells of h. The caller does not hold the
// carrier's mu.
func (h *hold) push(what string) {
	c := h.carrier
	if !c.notifies.Load() {
		return
	}
	frame := appendBulk(notice(what), h.key())
	if h.mode() == script.Permit {
		frame = appendBulk(frame, h.owner())
	} else {
		frame = appendInt(frame, h.token)
	}
	c.pushAfterAnswer(frame, &h.unanswered)
}

// notice is the beginning of a frame of four elements.
func notice(what string) []byte { return appendBulk(appendBulk(appendArray(nil, 4), "lock"), what) }

// pushAfterAnswer sends a frame, or keeps it for the end of the answer while unanswered is set. mu
// guards unanswered, and the caller does not hold it.
func (c *Carrier) pushAfterAnswer(frame []byte, unanswered *bool) {
	c.mu.Lock()
	later := *unanswered
	if later {
		c.pendingPushes = append(c.pendingPushes, frame)
	}
	c.mu.Unlock()
	if !later {
		c.host.Push(frame)
	}
}

// ReportDraining tells the client that the Leash stops and closes the connection after that time at
// the latest. It does nothing without LOCK.NOTIFY. It does not block and is safe for concurrent
// use.
func (c *Carrier) ReportDraining(within time.Duration) {
	if !c.notifies.Load() {
		return
	}
	c.pushAfterAnswer(appendInt(appendBulk(notice(drainingNotice), ""), within.Milliseconds()), &c.answering)
}
