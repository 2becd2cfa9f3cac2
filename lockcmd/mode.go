package lockcmd

import (
	"slices"
	"strings"
)

// mode is a way to hold a lock: where its holds lie in Redis, and which scripts know them. A script
// of one name takes the same arguments and gives the same replies in every mode, so that the life
// of a hold is written once. Its keys are the lock's, then the mode's helpers, then what that
// script needs besides (the token counter, tombstones).
type mode struct {
	id     uint8  // holds of two modes never share a batch of the watchdog's (renewal.Plan.Kind)
	name   string // as LOCK.INFO says it
	option string // of ACQUIRE; "" for none
	shared bool   // several owners may hold the lock at once

	acquire, release, revoke, move, undo *script
	// of a hold that it only looks at it says how long that one lasts (R24)
	renew *script
	// replaces the record of a lease, if it is as it was read, and sets the lease's own time
	extend     *script
	breakOther *script // ends a hold that is not of Leash's
	restore    *script // puts holds back that a new master does not have
	// renew a hold, or release it, one key at a time; nil when it has but one
	renewKey, releaseKey *script
	handover             *script // nil when a release does not grant
	// who waits stands in that queue, and is told on a channel of its own
	fair bool

	channel func(key string) string // where its releases are told
	// where FAIR waiters of its locks stand, whom its releases tell too (R22); nil when none do
	queue   func(key string) []string
	helpers func(key, owner string) []string // nil when there are none
}

// plain is an exclusive lock, Redisson's RLock.
var plain = &mode{
	id: 0, name: "plain", acquire: acquireScript, release: releaseScript, revoke: revokeScript, move: moveScript, undo: undoScript,
	renew: renewScript, restore: restoreScript, extend: extendScript, breakOther: breakScript, handover: handoverScript, channel: lockChannel, queue: queueKeys,
}

// fair is a plain lock for which waiters stand in one queue, whatever Leash or Java they come from:
// Redisson's RedissonFairLock. Once it is held it is a plain one.
var fair = &mode{
	id: 1, name: "fair", option: "FAIR", acquire: acquireFairScript, release: releaseScript, revoke: revokeScript, move: moveScript,
	undo: undoScript, renew: renewScript, restore: restoreScript, extend: extendScript, breakOther: breakScript, handover: handoverScript, fair: true, channel: lockChannel, queue: queueKeys,
}

// read and write are the two ways to hold a read-write lock, Redisson's RReadWriteLock.
var (
	read  = newRWMode(2, "read", true)
	write = newRWMode(3, "write", false)
)

func newRWMode(id uint8, name string, shared bool) *mode {
	load := func(script string, parts ...string) *script {
		return loadScript("rw_"+script, slices.Concat([]string{"rw_" + name, "rw"}, parts)...)
	}
	return &mode{
		id: id, name: name, option: strings.ToUpper(name), shared: shared, acquire: load("acquire", "rw_grant", "master"), release: load("release"),
		handover: load("handover", "rw_grant", "master"),
		revoke:   load("revoke"), move: load("move", "set_carrier"), undo: load("undo"), renew: load("renew"), restore: load("restore", "master"), renewKey: load("renew_key"), releaseKey: load("release_key"), extend: load("extend"), breakOther: load("break"),
		channel: rwChannel,
		helpers: func(key, _ string) []string { return []string{recordsKey(key)} },
	}
}

// modes are all of them, by their ids, but permit.
var modes = [...]*mode{plain, fair, read, write}

// modeOf is the mode with that id.
func modeOf(id uint8) *mode {
	if id == permit.id {
		return permit
	}
	return modes[id]
}

// keys are the keys of a script of the mode: those about an owner's hold of key, and more behind
// them.
func (m *mode) keys(key, owner string, more ...string) []string {
	keys := append(make([]string, 0, 4), key)
	if m.helpers != nil {
		keys = append(keys, m.helpers(key, owner)...)
	}
	return append(keys, more...)
}

// endKeys are the keys of a script that may end an owner's hold of key: as keys, and where FAIR
// waiters stand behind them.
func (m *mode) endKeys(key, owner string, more ...string) []string {
	keys := m.keys(key, owner, more...)
	if m.queue != nil {
		keys = append(keys, m.queue(key)...)
	}
	return keys
}

// releaseKeys are the keys of the script release. Of a plain lock's queue it sees only whether
// somebody stands there: each key costs time (of about 6 µs, the queue's three cost 1 and its first
// 0.5).
func (m *mode) releaseKeys(key, owner string) []string {
	if m.queue == nil || m.fair {
		return m.endKeys(key, owner)
	}
	return m.keys(key, owner, queueKey(key))
}

// minKeys is how many keys are about an owner's hold of key alone.
func (m *mode) minKeys(key, owner string) int {
	if m.helpers == nil {
		return 1
	}
	return 1 + len(m.helpers(key, owner))
}

// handsOverTo reports whether the release of a hold may grant the lock to who waits for it in mode next.
func (m *mode) handsOverTo(next *mode) bool {
	return m.sameInRedis(next) || m.helpers != nil && next.helpers != nil
}

// sameInRedis reports whether holds of two modes are the same in Redis: FAIR is a way to wait.
func (m *mode) sameInRedis(other *mode) bool {
	return m == other || m.queue != nil && other.queue != nil
}
