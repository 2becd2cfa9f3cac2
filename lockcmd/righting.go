package lockcmd

import (
	"time"

	"leash/renewal"
)

// right is about an answer that says another count of the hold than this Leash knows of. It may be
// that of a new master, which was not known as one when it was asked and has the hold in an older
// state: then that is put right, and the release was the one that was meant. tooLate says that it
// is to be sent once more.
func (e *ending) right(code int64, sent, until time.Time) (int64, error) {
	h, s := e.hold, e.service
	ended, counts := e.inner && code == endedIt, !e.inner && !e.all && code == countsOn
	if s.graces == nil || !ended && !counts || e.request.doubt {
		return code, nil
	}
	if _, ok := s.graces.serves(h.key(), sent, until); !ok || !s.graces.owes(h) {
		return code, nil
	}
	if ended {
		h.lessen(e.back)
		e.lessened = true
	}
	how, err := s.restore(h, until)
	switch {
	case ended && (err != nil || how == renewal.Renewed): // else the watchdog puts it back
		return countsOn, nil
	case counts && err == nil && how == renewal.Renewed:
		return tooLate, nil
	}
	return code, err
}

// buriedText is the tombstone of a hold that is about to be released.
const buriedText = releasedText + " here"

// bury lays a tombstone before the hold is released, if a request of unknown outcome that has put
// it back on a new master may still come: it would put it back once more, for nobody. Another
// tombstone does as much, and says how the hold has ended.
func (e *ending) bury(until time.Time) error {
	h, s := e.hold, e.service
	h.carrier.mu.Lock()
	left := time.Until(h.rare().doubt)
	h.carrier.mu.Unlock()
	if left <= 0 || e.inner || e.buried {
		return nil
	}
	n, err := s.number(e.burial(left), until)
	e.buried = n == 1
	return err
}

// exhume takes the tombstone away again: the hold goes on. It waits for Redis; what it cannot do by
// its deadline is left to time.
func (e *ending) exhume() {
	if _, err := e.service.number(e.burial(0), e.service.deadline()); err == nil {
		e.buried = false
	}
}

// burial is the request to lay a tombstone for so long; zero takes it away.
func (e *ending) burial(lasts time.Duration) *request {
	h := e.hold
	return &request{
		script: engraveScript, db: int(h.db), keys: []string{tombstoneKey(h.key(), h.token, h.carrier.name)}, args: words(buriedText, lasts.Milliseconds()),
	}
}
