package lockcmd

import (
	"strconv"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// The Leashes whose clients wait for one lock take turns (R21). Redis keeps their order, see
// script/lua/turns.lua. A turn lasts for the waiters that were in the queue of a Leash when it
// began.
// So distance to Redis costs a Leash none of its grants.

const (
	minReservation = 250 * time.Millisecond // how long a free lock is reserved for a Leash, at least
	maxReservation = 8 * time.Second
)

// reservation is how long a free lock must stay reserved for a Leash: four round trips, rounded up
// so that it rarely changes.
func reservation(roundTrip time.Duration) time.Duration {
	d := minReservation
	for d < 4*roundTrip && d < maxReservation {
		d *= 2
	}
	return d
}

// turnEntry is the entry of the waiters in mode m in the list of turns.
func (s *Service) turnEntry(m *script.Mode) string {
	lasts := reservation(s.redis.RoundTrip())
	switch {
	case m.Fair: // Redis has the order of the FAIR waiters of all Leashes
		return newTurnEntry(fairEntry, lasts)
	case lasts == minReservation: // nearly always
		return s.nearTurn
	}
	return newTurnEntry(s.uuid, lasts)
}

// newTurnEntry is the entry of a Leash, or of the FAIR waiters, in the list of turns.
func newTurnEntry(name string, lasts time.Duration) string {
	return name + "/" + strconv.FormatInt(lasts.Milliseconds(), 10)
}

const fairEntry = "fair"

// turnEventText is the text of the event that tells a Leash of its turn.
func turnEventText(lock script.Lock, m *script.Mode) string {
	return event.Text(event.Turn, int64(lock.DB), turnKind(m), lock.Key)
}

// turnKind names the modes whose waiters are in one queue.
func turnKind(m *script.Mode) string {
	switch {
	case m == script.Permit:
		return "permit"
	case m.Helpers != nil:
		return "rw"
	}
	return "lock"
}

// beginTurn makes the first waiter of a queue attempt, because the lock is reserved for this Leash.
// Without a waiter the next Leash gets its turn. It does not block.
func (s *Service) beginTurn(lock script.Lock, kind string) {
	for _, m := range []*script.Mode{script.Plain, script.Write, script.Permit} {
		if kind != turnKind(m) {
			continue
		}
		if queue := (queueID{lock, m.Channel(lock.Key)}); !s.queues.wake(queue) {
			s.leaveTurns(queue, m)
		}
	}
}

// leaveTurns takes this Leash out of the list of turns, because nobody waits here any more. It does
// not block; left is closed when it is done. Without an answer the reservation of this Leash runs
// out. A waiter that has come meanwhile may have been taken out, so it attempts again.
func (s *Service) leaveTurns(queue queueID, m *script.Mode) (left <-chan struct{}) {
	done, lock := make(chan struct{}), queue.Lock
	s.spawn(func() {
		defer close(done)
		s.redis.LeaveTurns(lock, m, s.turnEntry(m), turnEventText(lock, m), s.deadline())
		s.events.WakeChannel(queue.channel)
	})
	return done
}
