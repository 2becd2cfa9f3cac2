package lockcmd

import (
	"context"
	"time"

	"leash/renewal"
)

// right is about an answer that says another count of the hold than this Leash knows of. It may be that of a new master, which was not known as
// one when it was asked and has the hold in an older state: then that is put right, and the release was the one that was meant. tooLate says that
// it is to be sent once more.
func (e *ending) right(code int64, sent, until time.Time) (int64, error) {
	h, s := e.hold, e.service
	ended, counts := e.inner && code == endedIt, !e.inner && !e.all && code == countsOn
	if s.graces == nil || !ended && !counts || e.request.doubt {
		return code, nil
	}
	if _, ok := s.graces.serves(h.id.key, sent, until); !ok || !s.graces.owes(h) {
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

// bury lays a tombstone before the hold is released, if a request of unknown outcome has put it back on a new master: a late copy of that would
// put it back once more, for nobody.
func (e *ending) bury(until time.Time) error {
	h, s := e.hold, e.service
	h.carrier.mu.Lock()
	doubt := h.rare().doubt
	h.carrier.mu.Unlock()
	if !doubt || e.inner || e.buried {
		return nil
	}
	lasts := s.graces.left(h.id.key) + maxAttempt // then that request does nothing any more
	_, err := s.ask(&request{
		script: buryScript, db: h.id.db, keys: []string{tombstoneKey(h.id.key, h.token, h.carrier.name)}, args: words(releasedText, lasts.Milliseconds()),
	}, until)
	e.buried = err == nil
	return err
}

// exhume takes the tombstone away again: the hold goes on.
func (e *ending) exhume() {
	h, s := e.hold, e.service
	ctx, cancel := context.WithDeadline(context.Background(), s.within(s.deadline()))
	defer cancel()
	s.database(h.id.db).Del(ctx, tombstoneKey(h.id.key, h.token, h.carrier.name))
}
