package hold

import (
	"time"

	"leash/proxy/resp"
)

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

// notices says what the client knows of a hold. Carrier.mu guards it.
type notices struct {
	unanswered bool // the client has no answer yet that names the hold
	wanted     bool // its owner was told that somebody waits
}

// pushes is what a carrier pushes later. Carrier.mu guards it.
type pushes struct {
	answering  bool     // from the start of Do until its answer was sent
	unanswered []*Hold  // holds that the answer names or that are checked after it
	pending    [][]byte // frames to push after the answer
}

// StartPushes turns LOCK.NOTIFY on. It returns false if the client's protocol has no pushes.
// Notices about present waiters come after the answer to the current command.
func (c *Carrier) StartPushes() bool {
	if !c.host.Push(nil) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.notifies.Swap(true) {
		c.registry.notifying.Add(1)
	}
	c.pushes.answering, c.pushes.unanswered = true, c.holdsLocked()
	for _, h := range c.pushes.unanswered {
		h.notices = notices{unanswered: true}
	}
	return true
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
		c.registry.notifying.Add(-1)
	}
	c.pushes.pending = nil
}

// BeginAnswer notes that the client has not been told of holds made from now on.
func (c *Carrier) BeginAnswer() {
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushes.answering = true
}

// EndAnswer notes that the client has got the answer. Notices about the holds in it follow now. It
// returns those holds: somebody may be waiting for them.
func (c *Carrier) EndAnswer() (told []*Hold) {
	if !c.notifies.Load() {
		return nil
	}
	c.mu.Lock()
	now := c.pushes
	c.pushes = pushes{}
	for _, h := range now.unanswered {
		h.notices.unanswered = false
	}
	c.mu.Unlock()
	for _, frame := range now.pending {
		c.host.Push(frame)
	}
	return now.unanswered
}

// holdBackPushesLocked delays notices about h, a new hold of the carrier, until the current answer
// was sent.
func (c *Carrier) holdBackPushesLocked(h *Hold) {
	if c.pushes.answering && c.notifies.Load() {
		h.notices.unanswered = true
		c.pushes.unanswered = append(c.pushes.unanswered, h)
	}
}

// Notifies reports whether the owner of h gets pushes.
func (h *Hold) Notifies() bool { return h.Carrier.notifies.Load() }

// ReportWanted tells the owner of h once that somebody waits for the lock.
func (h *Hold) ReportWanted() {
	if !h.Notifies() {
		return
	}
	h.Carrier.mu.Lock()
	// Other states are checked again later.
	say := !h.notices.wanted && h.state.isReliedOn() && !h.IsPermit() && !h.unreportedLocked()
	h.notices.wanted = h.notices.wanted || say
	h.Carrier.mu.Unlock()
	if say {
		h.push(wantedNotice)
	}
}

// push sends a notice about h, after the answer that tells of h. The caller does not hold the
// carrier's mu.
func (h *Hold) push(what string) {
	if !h.Notifies() {
		return
	}
	frame := resp.AppendBulk(notice(what), h.Key())
	if h.IsPermit() {
		frame = resp.AppendBulk(frame, h.Owner())
	} else {
		frame = resp.AppendInt(frame, h.Token)
	}
	h.Carrier.pushAfterAnswer(frame, &h.notices.unanswered)
}

// notice is the beginning of a frame of four elements.
func notice(what string) []byte {
	return resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 4), "lock"), what)
}

// pushAfterAnswer sends a frame, or keeps it for the end of the answer while unanswered is set. mu
// guards unanswered, and the caller does not hold it.
func (c *Carrier) pushAfterAnswer(frame []byte, unanswered *bool) {
	c.mu.Lock()
	later := *unanswered
	if later {
		c.pushes.pending = append(c.pushes.pending, frame)
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
	frame := resp.AppendInt(resp.AppendBulk(notice(drainingNotice), ""), within.Milliseconds())
	c.pushAfterAnswer(frame, &c.pushes.answering)
}
