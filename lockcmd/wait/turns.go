package wait

import (
	"strconv"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// The Leashes whose clients wait for one lock take turns (R21). Redis keeps their order, see
// script/lua/turns.lua. A turn lasts for the waiters that were in the queue of a Leash when it
// began. So distance to Redis costs a Leash none of its grants.

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

// Entry is the entry of the waiters in a mode in the list of turns.
func (m *Machine[R]) Entry(mode *script.Mode) string {
	lasts := reservation(m.Redis.RoundTrip())
	switch {
	case mode.Fair: // Redis has the order of the FAIR waiters of all Leashes
		return newEntry(fairEntry, lasts)
	case lasts == minReservation: // nearly always
		return m.near
	}
	return newEntry(m.Leash, lasts)
}

// newEntry is the entry of a Leash, or of the FAIR waiters, in the list of turns.
func newEntry(name string, lasts time.Duration) string {
	return name + "/" + strconv.FormatInt(lasts.Milliseconds(), 10)
}

const fairEntry = "fair"

// TurnEvent is the text of the event that tells a Leash of its turn.
func TurnEvent(lock script.Lock, mode *script.Mode) string {
	return event.Text(event.Turn, int64(lock.DB), turnKind(mode), lock.Key)
}

// turnKind names the modes whose waiters are in one queue.
func turnKind(mode *script.Mode) string {
	switch {
	case mode == script.Permit:
		return "permit"
	case mode.Helpers != nil:
		return "rw"
	}
	return "lock"
}

// BeginTurn makes the first waiter of a queue attempt, because the lock is reserved for this Leash.
// e is the TurnEvent. Without a waiter the next Leash gets its turn. It does not block.
func (m *Machine[R]) BeginTurn(e event.Event) {
	lock := script.Lock{DB: int(e.Token), Key: e.Key}
	for _, mode := range []*script.Mode{script.Plain, script.Write, script.Permit} {
		if e.Carrier != turnKind(mode) {
			continue
		}
		if queue := QueueOf(lock, mode); !m.Wake(queue) {
			m.leaveTurns(queue, mode)
		}
	}
}

// leaveTurns takes this Leash out of the list of turns, because nobody waits here any more. It does
// not block; left is closed when it is done. Without an answer the reservation of this Leash runs
// out.
func (m *Machine[R]) leaveTurns(queue QueueID, mode *script.Mode) (left <-chan struct{}) {
	done, lock := make(chan struct{}), queue.Lock
	m.Tasks.Spawn(func() {
		defer close(done)
		m.Redis.LeaveTurns(lock, mode, m.Entry(mode), TurnEvent(lock, mode), m.Deadline(time.Time{}))
		m.LeftTurns(queue)
	})
	return done
}

// LeftTurns makes the waiters attempt again that have come to a queue while a script took this
// Leash out of the list of turns: the one that is there, and those that begin to wait with a result
// from before. It does not block.
func (m *Machine[R]) LeftTurns(id QueueID) { m.Channels.WakeChannel(id.Channel) }
