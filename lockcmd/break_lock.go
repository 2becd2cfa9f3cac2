package lockcmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"leash/renewal"
)

const breakName = "LOCK.BREAK"

// Answers of BREAK.
const (
	wasFree   = 0
	wasTold   = 1 // its holder was told, then it was ended
	wasForced = 2 // it was ended, and nobody has confirmed that its holder knows
)

// breakTimeout is how long a Leash has to tell the holder and to end the hold by itself.
const breakTimeout = time.Second

// confirmSlack is how much later a last look may be, after a hold was ended at the end of that
// time.
const confirmSlack = 100 * time.Millisecond

// breakLock is LOCK.BREAK.
func (c *Carrier) breakLock(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 2 {
		return appendError(dst, msgArity(breakName))
	}
	s, key := c.service, string(args[1])
	if msg := s.keyError(key); msg != "" {
		return appendError(dst, msg)
	}
	b := s.newBreakRequest(c.id(key), s.deadline())
	err := b.run()
	switch {
	case err == nil:
		return appendInt(dst, b.answer())
	case errors.Is(err, errUnknown), errors.Is(err, errRefused):
		if b.begun {
			return c.timeout(dst, msgBreakUnknown)
		}
		return c.timeout(dst, msgRefused)
	}
	return appendError(dst, scriptError(err))
}

// breakRequest ends all holds of a lock against their owners' will. The order is that of R27: each is
// marked as broken in Redis, the Leash that carries it hears of it, asks Redis, tells its client,
// and ends the hold as it ends others; where the mark was, it says how the hold has ended, for its
// owner may have released it in that moment. What is still there after breakPatience is ended past
// it: that Leash finds the mark when it next looks. A hold of Redisson's is ended at once, for
// there is nobody to tell.
type breakRequest struct {
	service *Service
	lock    lockID
	until   time.Time
	targets map[int64]bool // the tokens of the holds to end
	// those that were marked, by how their records begin: one that moves is marked again
	marked map[string]bool
	// where the Leashes that carry them are to say how the holds have ended, by their tokens
	awaitingReport map[int64]string
	forceAfter     time.Time // until when they are left to their Leashes

	begun, ownerTold, forced bool
	unconfirmed              bool // how one of them has ended
}

func (s *Service) newBreakRequest(lock lockID, until time.Time) *breakRequest {
	return &breakRequest{service: s, lock: lock, until: until, targets: make(map[int64]bool), marked: make(map[string]bool), awaitingReport: make(map[int64]string)}
}

func (b *breakRequest) answer() int64 {
	switch {
	case b.forced, b.unconfirmed:
		return wasForced
	case b.ownerTold:
		return wasTold
	}
	return wasFree
}

func (b *breakRequest) run() error {
	info, err := b.service.inspect(b.lock, b.until)
	// beside Java's readers there may be ours
	if err == nil && len(info.holds) == 0 && (info.owner == "" || info.mode != plain.name) {
		info, _, _, err = b.service.seek(b.lock, options{}, b.until)
	}
	for _, f := range info.others {
		if err == nil {
			err = b.forceOther(f)
		}
	}
	for _, f := range info.holds {
		b.targets[f.record.token] = true
	}
	b.forceAfter = time.Now().Add(b.service.breakTimeout)
	for pause := 2 * time.Millisecond; err == nil; pause = min(2*pause, 50*time.Millisecond) {
		var over bool
		if over, err = b.step(info); over || err != nil {
			break
		}
		if b.service.stoppedWithin(pause) || time.Now().After(b.until) {
			return errRefused
		}
		info, err = b.service.inspect(b.lock, b.until)
	}
	if err == nil {
		b.awaitReports()
	}
	return err
}

// step does what is to be done about what was seen. It reports whether the holds that are meant are
// over.
func (b *breakRequest) step(info inspection) (over bool, err error) {
	over = true
	for _, f := range info.holds {
		if !b.targets[f.record.token] { // somebody got it meanwhile
			continue
		}
		over = false
		switch mark := recordPrefix(f.record.token, f.record.carrier); {
		case !b.marked[mark]:
			b.marked[mark] = true
			err = b.markBroken(f)
		case time.Now().After(b.forceAfter):
			err = b.force(f)
		}
		if err != nil {
			return false, err
		}
	}
	return over, nil
}

// markBroken lets the Leash that carries a hold know that it is to be broken.
func (b *breakRequest) markBroken(f found) error {
	b.begun = true
	s, token, carrier := b.service, f.record.token, f.record.carrier
	tombstone := tombstoneKey(b.lock.key, token, carrier)
	n, err := s.askInt(&scriptCall{
		script: markBrokenScript, db: b.lock.db, keys: []string{tombstone},
		args: scriptArgs(b.keepMillis(f), carrierChannel(carrier), holdEventText(brokenText, token, carrier, b.lock.key)),
	}, b.until)
	if n != 1 {
		return err
	}
	b.awaitingReport[token] = tombstone
	if h := s.find(b.lock, func(h *hold) bool { return h.token == token && h.carrier.name == carrier }); h != nil {
		s.obeyBreak(h) // without waiting for the news, which comes as well
	}
	return nil
}

// awaitReports waits until the Leashes that were told have said how the holds, which are over, have
// ended. While Redis does not say, nobody has.
func (b *breakRequest) awaitReports() {
	for pause := time.Millisecond; len(b.awaitingReport) > 0; pause = min(2*pause, 50*time.Millisecond) {
		for token, tombstone := range b.awaitingReport {
			text, err := b.service.value(b.lock.db, tombstone, b.forceAfter.Add(confirmSlack))
			how, _, _ := strings.Cut(text, " ")
			switch {
			case err != nil || strings.HasSuffix(text, perhapsSuffix):
			case text == forcedText: // by another BREAK
				b.forced = true
				delete(b.awaitingReport, token)
			case how == lostText:
				b.ownerTold = true
				delete(b.awaitingReport, token)
			case how == releasedText, how == movedText, how == repeatedText: // its owner was first
				delete(b.awaitingReport, token)
			}
		}
		if len(b.awaitingReport) > 0 && (time.Now().After(b.forceAfter) || b.service.stoppedWithin(pause)) {
			b.unconfirmed = true
			return
		}
	}
}

// force ends a hold past the Leash that carries it, which was told. The mark stays, with a word
// that makes it final, so that it finds out why.
func (b *breakRequest) force(f found) error {
	s, r := b.service, f.record
	own := f.mode.keys(b.lock.key, f.owner)
	n, err := s.askIntThroughMigration(&scriptCall{
		script: f.mode.revoke, db: b.lock.db, minKeys: len(own),
		keys: f.mode.endKeys(b.lock.key, f.owner, tombstoneKey(b.lock.key, r.token, r.carrier), answerKey(b.lock.key, s.newRequestID())),
		args: scriptArgs(f.owner, r.token, r.carrier, "all", f.mode.channel(b.lock.key), s.cfg.publishMode(), b.keepMillis(f), "", "", "", brokenText),
	}, b.until)
	if err == nil && n == holdEnded {
		b.forced = true
		delete(b.awaitingReport, r.token)
	}
	return err
}

// forceOther ends a hold of Redisson's.
func (b *breakRequest) forceOther(f found) error {
	b.begun = true
	s := b.service
	own := f.mode.keys(b.lock.key, f.owner)
	n, err := s.askIntThroughMigration(&scriptCall{
		script: f.mode.breakOther, db: b.lock.db, minKeys: len(own), keys: f.mode.endKeys(b.lock.key, f.owner, answerKey(b.lock.key, s.newRequestID())),
		args: scriptArgs(f.owner, f.mode.channel(b.lock.key), s.cfg.publishMode(), b.keepMillis(f)),
	}, b.until)
	b.forced = b.forced || err == nil && n == holdEnded
	return err
}

// keepMillis is how long, in ms, marks and answers about a hold live.
func (b *breakRequest) keepMillis(f found) int64 {
	return max(f.record.ttl, b.service.cfg.WatchdogTimeout.Milliseconds())
}

// obeyBreak ends a hold of which it is said that it is to be broken, if Redis says so too, and says
// there how it has ended.
func (s *Service) obeyBreak(h *hold) {
	text, err := s.value(int(h.db), tombstoneKey(h.key(), h.token, h.carrier.name), s.deadline())
	if err != nil || text != brokenText {
		return
	}
	if h.dropIfLeaseOver() { // as far as is known here
		h.reportEnd(movedText)
		h.unregister()
		s.spawn(func() { s.reportExpired(h) })
		return
	}
	if !h.noteRemoteWatch() {
		s.answerLateWatcher(holdRef{h.token, h.carrier.name})
	}
	h.evict(renewal.ReasonBroken)
}

// reportExpired says of a lease that was to be broken that it has run out by itself, if it is not there
// any more before BREAK ends it.
func (s *Service) reportExpired(h *hold) {
	for until := time.Now().Add(breakTimeout); time.Now().Before(until) && !s.stoppedWithin(lossPause); {
		info, err := s.inspect(h.lock(), until)
		if err != nil {
			continue
		}
		if f, ok := info.find(options{token: h.token}); !ok || f.record.carrier != h.carrier.name {
			h.writeTombstone(releasedText)
			return
		}
	}
}
