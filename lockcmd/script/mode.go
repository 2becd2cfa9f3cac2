package script

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"leash/lockcmd/script/transport"
)

// Mode is a way to hold a lock: where holds are in Redis, and the scripts for them. A script has
// the same arguments and replies in every mode, so Go code is written once for all modes. The keys
// of a script are the lock, then the mode's helper keys, then what the script needs besides, such
// as the token counter or tombstones.
type Mode struct {
	ID     uint8  // renewal.Plan.Kind: modes do not share renewal batches
	Name   string // for LOCK.INFO
	Option string // of ACQUIRE; "" for none
	Shared bool   // several owners may hold the lock

	Acquire, Release, Revoke, Move, Undo *transport.Script
	// acquires for a command with REPLICAS. It also checks the rights of undo before it writes.
	acquireReplicated *transport.Script
	// renews holds; of holds that it only checks it returns the time left (R24)
	Renew *transport.Script
	// replaces the record of a lease if it is unchanged, and sets the lease's time
	Extend     *transport.Script
	BreakOther *transport.Script // ends a hold that is not of a Leash
	Restore    *transport.Script // restores holds on a new master
	// renew or release one key of a hold at a time; nil if a hold has one key
	RenewKey, renewRecords, ReleaseKey *transport.Script
	Handover                           *transport.Script // nil if a release cannot grant
	// waiters are in the queue in Redis and have a channel each
	Fair bool

	Channel func(key string) string // where releases are published
	// keys of the queue of FAIR waiters, which a release wakes (R22); nil without
	Queue   func(key string) []string
	Helpers func(key string) []string // nil without
}

// Plain is an exclusive lock, Redisson's RLock.
var Plain = &Mode{
	ID: 0, Name: "plain", Acquire: AcquireScript, acquireReplicated: replicatedAcquireScript,
	Release: ReleaseScript, Revoke: RevokeScript, Move: MoveScript, Undo: undoScript,
	Renew: RenewScript, Restore: restoreScript, Extend: ExtendScript, BreakOther: BreakScript,
	Handover: HandoverScript, Channel: LockChannel, Queue: QueueKeys,
}

// Fair is a plain lock with one queue for all waiters, through any Leash or from Java: Redisson's
// RedissonFairLock. Its holds are those of a plain lock.
var Fair = &Mode{
	ID: 1, Name: "fair", Option: "FAIR", Acquire: AcquireFairScript, acquireReplicated: replicatedAcquireFairScript,
	Release: ReleaseScript, Revoke: RevokeScript, Move: MoveScript,
	Undo: undoScript, Renew: RenewScript, Restore: restoreScript, Extend: ExtendScript, BreakOther: BreakScript,
	Handover: HandoverScript, Fair: true, Channel: LockChannel, Queue: QueueKeys,
}

// Read and Write are the modes of a read-write lock, Redisson's RReadWriteLock.
var (
	Read  = newRWMode(2, "read", true)
	Write = newRWMode(3, "write", false)
)

func newRWMode(id uint8, name string, shared bool) *Mode {
	load := func(script string, parts ...string) *transport.Script {
		return Load(script, append([]string{"rw_" + name}, parts...)...)
	}
	renewKey := load("rw_renew_key", "rw")
	return &Mode{
		ID: id, Name: name, Option: strings.ToUpper(name), Shared: shared,
		Acquire: load("rw_acquire", "turns", "rw", "rw_grant", "master", "again", "rw_again", "rw_pass_others"),
		acquireReplicated: load("rw_acquire", "turns", "rw", "rw_grant", "master", "rw_undo_rights", "again",
			"rw_again", "rw_pass_others"),
		Release:  load("rw_release", "turns", "rw", "release_reply"),
		Handover: load("rw_handover", "turns", "rw", "rw_grant", "master", "release_reply"),
		Revoke:   load("revoke", "rw"),
		Move:     load("move", "rw"),
		Undo:     load("undo", "rw"),
		Renew:    load("rw_renew", "rw", "renew_each"),
		Restore:  load("rw_restore", "rw", "rw_make_room", "master", "restore_each"),
		RenewKey: renewKey, renewRecords: renewKey,
		ReleaseKey: load("rw_release_key", "rw", "release_reply"),
		Extend:     load("extend", "rw"),
		BreakOther: load("break", "rw"),
		Channel:    RWChannel,
		Helpers:    func(key string) []string { return []string{RecordsKey(key)} },
	}
}

// Permit is the mode of permits of a semaphore, Redisson's RPermitExpirableSemaphore. The owner of
// such a hold is the permit itself. Its token tells it from another hold of the same permit. The
// token comes from this Leash and fences nothing. LOCK.ACQUIRE cannot ask for permits, so Permit is
// not in Modes.
var Permit = &Mode{
	ID: 100, Name: "permit", Option: "PERMIT", Shared: true, Release: PermitReleaseScript,
	Handover: PermitHandoverScript,
	Move:     PermitMoveScript, Renew: PermitRenewScript, Restore: permitRestoreScript,
	RenewKey: PermitRenewKeyScript, renewRecords: Read.renewRecords, Channel: PermitChannel,
	Helpers: func(key string) []string { return SemaphoreKeys(key)[1:] },
}

// Modes are all modes except Permit, by id.
var Modes = [...]*Mode{Plain, Fair, Read, Write}

// ModeOf is the mode with that id.
func ModeOf(id uint8) *Mode {
	if id == Permit.ID {
		return Permit
	}
	return Modes[id]
}

// Keys are the keys of a script: those of a hold of key, then more.
func (m *Mode) Keys(key string, more ...string) []string {
	keys := append(make([]string, 0, 4), key)
	if m.Helpers != nil {
		keys = append(keys, m.Helpers(key)...)
	}
	return append(keys, more...)
}

// EndKeys are the keys of a script that may end a hold: keys, then the queue of FAIR waiters.
func (m *Mode) EndKeys(key string, more ...string) []string {
	keys := m.Keys(key, more...)
	if m.Queue != nil {
		keys = append(keys, m.Queue(key)...)
	}
	return keys
}

// ReleaseKeys are the keys of the release script. For a plain lock it gets only the first key of
// the queue and checks whether anybody waits. Each key costs time: of about 6 µs, all three keys of
// the queue took 1 µs and the first one 0.5 µs.
func (m *Mode) ReleaseKeys(key string) []string {
	if m.Queue == nil || m.Fair {
		return m.EndKeys(key, TurnsKey(key))
	}
	return m.Keys(key, TurnsKey(key), queueKey(key))
}

// Unfair is the mode of waiters without FAIR for such holds.
func (m *Mode) Unfair() *Mode {
	if m.Fair {
		return Plain
	}
	return m
}

// MinKeys is the number of keys of a hold alone.
func (m *Mode) MinKeys() int {
	if m.Helpers == nil {
		return 1
	}
	return 1 + len(m.Helpers(""))
}

// HandsOverTo reports whether the release of a hold may grant the lock to a waiter in mode next.
func (m *Mode) HandsOverTo(next *Mode) bool {
	return m.SameInRedis(next) || m.Helpers != nil && next.Helpers != nil
}

// SameInRedis reports whether holds of two modes look the same in Redis. FAIR is only a way to
// wait.
func (m *Mode) SameInRedis(other *Mode) bool {
	return m == other || m.Queue != nil && other.Queue != nil
}

// Files are the Lua scripts and their parts.
//
//go:embed lua/*.lua
var Files embed.FS

var (
	AcquireScript    = Load("acquire", "acquire_free", "turns", "master", "again", "plain_again")
	ReleaseScript    = Load("release", "release_alone", "turns", "queue", "plain", "release_reply")
	HandoverScript   = Load("handover", "turns", "queue", "master", "plain", "release_reply")
	RevokeScript     = Load("revoke", "queue", "plain")
	MoveScript       = Load("move", "plain")
	undoScript       = Load("undo", "queue", "plain")
	RenewScript      = Load("renew")
	restoreScript    = Load("restore", "master", "restore_each")
	ExtendScript     = Load("extend", "plain")
	BreakScript      = Load("break", "queue", "plain")
	tombstoneScript  = Load("tombstone")
	inspectScript    = Load("inspect")
	takeScript       = Load("take")
	giveScript       = Load("give")
	setCounterScript = Load("set_counter")
	countDownScript  = Load("count_down")

	AcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master", "again", "plain_again")

	replicatedAcquireScript = Load("acquire", "undo_rights", "acquire_free", "turns", "master", "again",
		"plain_again")
	replicatedAcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master", "undo_rights", "again",
		"plain_again")

	dequeueScript    = Load("dequeue", "queue")
	leaveTurnsScript = Load("leave_turns", "turns")
	TouchScript      = Load("touch")

	inspectRWScript = Load("rw_inspect", "rw_read", "rw")

	resizeSemaphoreScript = Load("semaphore_resize", "permits")
	semaphoreInfoScript   = Load("semaphore_info", "permits")

	PermitAcquireScript  = Load("permit_acquire", "turns", "permits", "master")
	PermitReleaseScript  = Load("permit_release", "turns", "permits")
	PermitHandoverScript = Load("permit_handover", "turns", "permits", "master")
	PermitRevokeScript   = Load("permit_revoke", "permits")
	permitUndoScript     = Load("permit_undo", "permits")
	PermitRenewScript    = Load("permit_renew", "permits", "renew_each")
	permitRestoreScript  = Load("permit_restore", "permits", "master", "restore_each")
	PermitRenewKeyScript = Load("permit_renew_key", "permits")
	PermitMoveScript     = Load("move", "permits", "permit_hold")

	heldScript  = Load("held", "rw_read", "rw", "permits")
	probeScript = Load("probe")
)

// loaded are the scripts by the name of their file. Of scripts that share a file, it has the first.
var loaded = make(map[string]*transport.Script)

// ByName is the script in a file, for tests that wait until it runs.
func ByName(name string) *transport.Script { return loaded[name] }

// Load joins the prelude, the given parts and the script.
func Load(name string, parts ...string) *transport.Script {
	sc := transport.Load(Files, slices.Concat([]string{"prelude"}, parts, []string{name})...)
	if loaded[name] == nil {
		loaded[name] = sc
	}
	return sc
}

// AllCommands are the names of the commands that any script calls, in order.
func AllCommands() (names []string) {
	files, _ := fs.Glob(Files, "lua/*.lua")
	for _, file := range files {
		text, _ := Files.ReadFile(file) // it is embedded
		for _, m := range transport.CallPattern.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
