package script

import "time"

// LeaveTurns takes an entry out of the list of turns. If the lock is reserved for it, the next one
// gets its turn. Without an answer its reservation runs out.
func (c *Client) LeaveTurns(lock Lock, m *Mode, entry, event string, until time.Time) {
	word := "0"
	if m == Permit { // how many are available
		word = "1"
	}
	_, _ = c.Ask(&Call{
		Script: leaveTurnsScript, DB: lock.DB, Keys: []string{TurnsKey(lock.Key)},
		Args: []string{entry, event, m.Channel(lock.Key), c.Publish, word},
	}, until)
}
