package script

import (
	"time"
)

// UndoArgs say which acquire to take back.
type UndoArgs struct {
	Lock           Lock
	Mode           *Mode
	Owner, Carrier string
	Acquire        int64 // the request number of the acquire
	Number         int64 // the request number of the undo
	Keep           int64 // the hold with this token stays; 0 for none
}

// Undo takes back an acquire of unknown outcome. It sends the script until Redis answers. It
// returns false if the client is stopped first.
func (c *Client) Undo(args UndoArgs) (answered bool) {
	m, key := args.Mode, args.Lock.Key
	return c.askUntilAnswered(&scriptCall{
		Script: m.Undo, DB: args.Lock.DB, Keys: m.EndKeys(key), MinKeys: m.MinKeys(),
		Args: words(args.Owner, args.Carrier, args.Acquire, args.Number, m.Channel(key), c.Publish, args.Keep),
	})
}

// UndoPermits gives back those of the permits that the carrier's acquire with that number took. A
// grant with a token up to keep stays. It sends the script until Redis answers. It returns false if
// the client is stopped first.
func (c *Client) UndoPermits(lock Lock, carrier string, acquire, keep int64, permits []string) (answered bool) {
	return c.askUntilAnswered(&scriptCall{
		Script: permitUndoScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key),
		Args: append(words(carrier, acquire, PermitChannel(lock.Key), c.Publish, keep), permits...),
	})
}

// Dequeue takes owners that gave up out of the queue of a FAIR lock. stay is true if some of them
// stay because another Leash has refreshed them. It has heartbeat time to refresh them again; 0
// says that this time has passed. bit is this Leash in the scores of waiters.
func (c *Client) Dequeue(
	lock Lock, owners []string, bit string, heartbeat time.Duration, until time.Time,
) (stay bool, err error) {
	n, err := c.askInt(&scriptCall{
		Script: dequeueScript, DB: lock.DB, Keys: Fair.EndKeys(lock.Key),
		Args: append(words(Fair.Channel(lock.Key), c.Publish, bit, heartbeat.Milliseconds()), owners...),
	}, until)
	return err == nil && n == 0, err
}

// LeaveTurns takes an entry out of the list of turns. If the lock is reserved for it, the next one
// gets its turn. Without an answer its reservation runs out.
func (c *Client) LeaveTurns(lock Lock, m *Mode, entry, event string, until time.Time) {
	word := "0"
	if m == Permit { // how many are available
		word = "1"
	}
	_, _ = c.ask(&scriptCall{
		Script: leaveTurnsScript, DB: lock.DB, Keys: []string{TurnsKey(lock.Key)},
		Args: []string{entry, event, m.Channel(lock.Key), c.Publish, word},
	}, until)
}

// askUntilAnswered sends a call again and again, with a pause after each time-out.
func (c *Client) askUntilAnswered(call *scriptCall) (answered bool) {
	for {
		_, err := c.ask(call, time.Now().Add(c.Timeout))
		if !IsSilence(err) {
			return true
		}
		if c.StoppedWithin(time.Second) {
			return false
		}
	}
}
