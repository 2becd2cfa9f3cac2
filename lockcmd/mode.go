package lockcmd

import (
	"slices"
	"strings"
)

// mode is a way to hold a lock: where holds are in Redis, and the scripts for them. A script has
// the same arguments and replies in every mode, so Go code is written once for all modes. The keys
// of a script are the lock, then the mode's helper keys, then what the script needs besides, such
// as the token counter or tombstones.
type mode struct {
	id     uint8  // renewal.Plan.Kind: modes do not share renewal batches
	name   string // for LOCK.INFO
	option string // of ACQUIRE; "" for none
	shared bool   // several owners may hold the lock

	acquire, release, revoke, move, undo *script
	// acquire for a command with REPLICAS. It also checks the rights of undo before it writes.
	acquireReplicated *script
	// renews holds; of holds that it only checks it returns the time left (R24)
	renew *script
	// replaces the record of a lease if it is unchanged, and sets the lease's time
	extend     *script
	breakOther *script // ends a hold that is not of a Leash
	restore    *script // restores holds on a new master
	// renew or release one key of a hold at a time; nil if a hold has one key
	renewKey, releaseKey *script
	handover             *script // nil if a release cannot grant
	// waiters are in the queue in Redis and have a channel each
	fair bool

	channel func(key string) string // where releases are published
	// keys of the queue of FAIR waiters, which a release wakes (R22); nil without
	queue   func(key string) []string
	helpers func(key, owner string) []string // nil without
}

// plain is an exclusive lock, Redisson's RLock.
var plain = &mode{
	id: 0, name: "plain", acquire: acquireScript, acquireReplicated: replicatedAcquireScript, release: releaseScript, revoke: revokeScript, move: moveScript, undo: undoScript,
	renew: renewScript, restore: restoreScript, extend: extendScript, breakOther: breakScript, handover: handoverScript, channel: lockChannel, queue: queueKeys,
}

// fair is a plain lock with one queue for all waiters, through any Leash or from Java: Redisson's
// RedissonFairLock. Its holds are those of a plain lock.
var fair = &mode{
	id: 1, name: "fair", option: "FAIR", acquire: acquireFairScript, acquireReplicated: replicatedAcquireFairScript, release: releaseScript, revoke: revokeScript, move: moveScript,
	undo: undoScript, renew: renewScript, restore: restoreScript, extend: extendScript, breakOther: breakScript, handover: handoverScript, fair: true, channel: lockChannel, queue: queueKeys,
}

// read and write are the modes of a read-write lock, Redisson's RReadWriteLock.
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
		acquireReplicated: load("acquire", "rw_grant", "master", "rw_undo_rights"), handover: load("handover", "rw_grant", "master"),
		revoke: load("revoke"), move: load("move", "set_carrier"), undo: load("undo"), renew: load("renew"), restore: load("restore", "master"), renewKey: load("renew_key"), releaseKey: load("release_key"), extend: load("extend"), breakOther: load("break"),
		channel: rwChannel,
		helpers: func(key, _ string) []string { return []string{recordsKey(key)} },
	}
}

// modes are all modes except permit, by id.
var modes = [...]*mode{plain, fair, read, write}

// modeOf is the mode with that id.
func modeOf(id uint8) *mode {
	if id == permit.id {
		return permit
	}
	return modes[id]
}

// keys are the keys of a script: those of an owner's hold of key, then more.
func (m *mode) keys(key, owner string, more ...string) []string {
	keys := append(make([]string, 0, 4), key)
	if m.helpers != nil {
		keys = append(keys, m.helpers(key, owner)...)
	}
	return append(keys, more...)
}

// endKeys are the keys of a script that may end a hold: keys, then the queue of FAIR waiters.
func (m *mode) endKeys(key, owner string, more ...string) []string {
	keys := m.keys(key, owner, more...)
	if m.queue != nil {
		keys = append(keys, m.queue(key)...)
	}
	return keys
}

// releaseKeys are the keys of the release script. For a plain lock it gets only the first key of
// the queue and checks whether anybody waits. Each key costs time: of about 6 µs, all three keys of
// the queue took 1 µs and the first one 0.5 µs.
func (m *mode) releaseKeys(key, owner string) []string {
	if m.queue == nil || m.fair {
		return m.endKeys(key, owner)
	}
	return m.keys(key, owner, queueKey(key))
}

// minKeys is the number of keys of an owner's hold alone.
func (m *mode) minKeys(key, owner string) int {
	if m.helpers == nil {
		return 1
	}
	return 1 + len(m.helpers(key, owner))
}

// handsOverTo reports whether the release of a hold may grant the lock to a waiter in mode next.
func (m *mode) handsOverTo(next *mode) bool {
	return m.sameInRedis(next) || m.helpers != nil && next.helpers != nil
}

// sameInRedis reports whether holds of two modes look the same in Redis. FAIR is only a way to
// wait.
func (m *mode) sameInRedis(other *mode) bool {
	return m == other || m.queue != nil && other.queue != nil
}
