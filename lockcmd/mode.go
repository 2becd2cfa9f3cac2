package lockcmd

// mode is a way to hold a lock: where its holds lie in Redis, and which scripts know them. A script of one name takes the same
// arguments and gives the same replies in every mode, so that the life of a hold is written once. Its keys are the lock's, then the
// mode's helpers, then what that script needs besides (the token counter, tombstones).
type mode struct {
	id     int    // holds of two modes never share a batch of the watchdog's (renewal.Plan.Kind)
	name   string // as LOCK.INFO says it
	option string // of ACQUIRE; "" for none
	shared bool   // several owners may hold the lock at once

	acquire, release, revoke, move, undo, renew *script
	handover                                    *script // nil when a release does not grant

	channel func(key string) string          // where its releases are told
	helpers func(key, owner string) []string // nil when there are none
}

// plain is an exclusive lock, Redisson's RLock.
var plain = &mode{
	id: 0, name: "plain", acquire: acquireScript, release: releaseScript, revoke: revokeScript, move: moveScript, undo: undoScript,
	renew: renewScript, handover: handoverScript, channel: lockChannel,
}

// modes are all of them, by id.
var modes = [...]*mode{plain}

// keys are the keys of a script of the mode: those about an owner's hold of key, and more behind them.
func (m *mode) keys(key, owner string, more ...string) []string {
	keys := append(make([]string, 0, 4), key)
	if m.helpers != nil {
		keys = append(keys, m.helpers(key, owner)...)
	}
	return append(keys, more...)
}
