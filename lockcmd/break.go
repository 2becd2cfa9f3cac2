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

// breakPatience is how long a Leash has to tell the holder and to end the hold by itself.
const breakPatience = time.Second

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
	b := s.newBreaking(c.id(key), s.deadline())
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

// breaking ends all holds of a lock against their owners' will. The order is that of R27: each is
// marked as broken in Redis, the Leash that carries it hears of it, asks Redis, tells its client,
// and ends the hold as it ends others; where the mark was, it says how the hold has ended, for its
// owner may have released it in that moment. What is still there after breakPatience is ended past
// it: that Leash finds the mark when it next looks. A hold of Redisson's is ended at once, for
// there is nobody to tell.
type breaking struct {
	service *Service
	lock    lockID
	until   time.Time
	meant   map[int64]bool // the tokens of the holds to end
	// those that were marked, by how their records begin: one that moves is marked again
	marked map[string]bool
	// where the Leashes that carry them are to say how the holds have ended, by their tokens
	asked   map[int64]string
	patient time.Time // until when they are left to their Leashes

	begun, told, forced bool
	unsaid              bool // how one of them has ended
}

func (s *Service) newBreaking(lock lockID, until time.Time) *breaking {
	return &breaking{service: s, lock: lock, until: until, meant: make(map[int64]bool), marked: make(map[string]bool), asked: make(map[int64]string)}
}

func (b *breaking) answer() int64 {
	switch {
	case b.forced, b.unsaid:
		return wasForced
	case b.told:
		return wasTold
	}
	return wasFree
}

func (b *breaking) run() error {
	l, err := b.service.inspect(b.lock, b.until)
	// beside Java's readers there may be ours
	if err == nil && len(l.holds) == 0 && (l.owner == "" || l.mode != plain.name) {
		l, _, _, err = b.service.seek(b.lock, options{}, b.until)
	}
	for _, f := range l.others {
		if err == nil {
			err = b.forceOther(f)
		}
	}
	for _, f := range l.holds {
		b.meant[f.record.token] = true
	}
	b.patient = time.Now().Add(b.service.confirm)
	for pause := 2 * time.Millisecond; err == nil; pause = min(2*pause, 50*time.Millisecond) {
		var over bool
		if over, err = b.step(l); over || err != nil {
			break
		}
		if b.service.stopped(pause) || time.Now().After(b.until) {
			return errRefused
		}
		l, err = b.service.inspect(b.lock, b.until)
	}
	if err == nil {
		b.confirm()
	}
	return err
}

// step does what is to be done about what was seen. It reports whether the holds that are meant are
// over.
func (b *breaking) step(l look) (over bool, err error) {
	over = true
	for _, f := range l.holds {
		if !b.meant[f.record.token] { // somebody got it meanwhile
			continue
		}
		over = false
		switch mark := mark(f.record.token, f.record.carrier); {
		case !b.marked[mark]:
			b.marked[mark] = true
			err = b.tell(f)
		case time.Now().After(b.patient):
			err = b.force(f)
		}
		if err != nil {
			return false, err
		}
	}
	return over, nil
}

// tell lets the Leash that carries a hold know that it is to be broken.
func (b *breaking) tell(f found) error {
	b.begun = true
	s, token, carrier := b.service, f.record.token, f.record.carrier
	stone := tombstoneKey(b.lock.key, token, carrier)
	n, err := s.number(&request{
		script: markScript, db: b.lock.db, keys: []string{stone},
		args: words(b.keep(f), carrierChannel(carrier), newsText(brokenText, token, carrier, b.lock.key)),
	}, b.until)
	if n != 1 {
		return err
	}
	b.asked[token] = stone
	if h := s.find(b.lock, func(h *hold) bool { return h.token == token && h.carrier.name == carrier }); h != nil {
		s.obey(h) // without waiting for the news, which comes as well
	}
	return nil
}

// confirm waits until the Leashes that were told have said how the holds, which are over, have
// ended. While Redis does not say, nobody has.
func (b *breaking) confirm() {
	for pause := time.Millisecond; len(b.asked) > 0; pause = min(2*pause, 50*time.Millisecond) {
		for token, stone := range b.asked {
			text, err := b.service.value(b.lock.db, stone, b.patient.Add(confirmSlack))
			how, _, _ := strings.Cut(text, " ")
			switch {
			case err != nil || strings.HasSuffix(text, perhaps):
			case text == forcedText: // by another BREAK
				b.forced = true
				delete(b.asked, token)
			case how == lostText:
				b.told = true
				delete(b.asked, token)
			case how == releasedText, how == movedText, how == repeatedText: // its owner was first
				delete(b.asked, token)
			}
		}
		if len(b.asked) > 0 && (time.Now().After(b.patient) || b.service.stopped(pause)) {
			b.unsaid = true
			return
		}
	}
}

// force ends a hold past the Leash that carries it, which was told. The mark stays, with a word
// that makes it final, so that it finds out why.
func (b *breaking) force(f found) error {
	s, r := b.service, f.record
	own := f.mode.keys(b.lock.key, f.owner)
	n, err := s.numberTogether(&request{
		script: f.mode.revoke, db: b.lock.db, least: len(own),
		keys: f.mode.endKeys(b.lock.key, f.owner, tombstoneKey(b.lock.key, r.token, r.carrier), answerKey(b.lock.key, s.mint())),
		args: words(f.owner, r.token, r.carrier, "all", f.mode.channel(b.lock.key), s.cfg.publishMode(), b.keep(f), "", "", "", brokenText),
	}, b.until)
	if err == nil && n == endedIt {
		b.forced = true
		delete(b.asked, r.token)
	}
	return err
}

// forceOther ends a hold of Redisson's.
func (b *breaking) forceOther(f found) error {
	b.begun = true
	s := b.service
	own := f.mode.keys(b.lock.key, f.owner)
	n, err := s.numberTogether(&request{
		script: f.mode.breaks, db: b.lock.db, least: len(own), keys: f.mode.endKeys(b.lock.key, f.owner, answerKey(b.lock.key, s.mint())),
		args: words(f.owner, f.mode.channel(b.lock.key), s.cfg.publishMode(), b.keep(f)),
	}, b.until)
	b.forced = b.forced || err == nil && n == endedIt
	return err
}

// keep is how long, in ms, marks and answers about a hold live.
func (b *breaking) keep(f found) int64 {
	return max(f.record.ttl, b.service.cfg.WatchdogTimeout.Milliseconds())
}

// obey ends a hold of which it is said that it is to be broken, if Redis says so too, and says
// there how it has ended.
func (s *Service) obey(h *hold) {
	text, err := s.value(int(h.db), tombstoneKey(h.key(), h.token, h.carrier.name), s.deadline())
	if err != nil || text != brokenText {
		return
	}
	if h.lapses() { // as far as is known here
		h.tellEnd(movedText)
		h.gone()
		s.spawn(func() { s.expired(h) })
		return
	}
	if !h.watchedFromAfar() {
		s.tellLate(heardOf{h.token, h.carrier.name})
	}
	h.evict(renewal.ReasonBroken)
}

// expired says of a lease that was to be broken that it has run out by itself, if it is not there
// any more before BREAK ends it.
func (s *Service) expired(h *hold) {
	for until := time.Now().Add(breakPatience); time.Now().Before(until) && !s.stopped(lossPause); {
		l, err := s.inspect(h.lock(), until)
		if err != nil {
			continue
		}
		if f, ok := l.find(options{token: h.token}); !ok || f.record.carrier != h.carrier.name {
			h.engrave(releasedText)
			return
		}
	}
}
