package script

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Files are the Lua scripts and their parts.
//
//go:embed lua/*.lua
var Files embed.FS

// Script is one Lua script.
type Script struct {
	Source, SHA string
	Shape       shape // of its replies
}

var (
	AcquireScript         = Load("acquire", "turns", "master")
	ReleaseScript         = Load("release", "turns", "queue")
	HandoverScript        = Load("handover", "turns", "queue", "master")
	RevokeScript          = Load("revoke", "queue", "revoke_report")
	MoveScript            = Load("move", "set_carrier")
	undoScript            = Load("undo", "queue")
	RenewScript           = Load("renew")
	restoreScript         = Load("restore", "master", "restore_each")
	ExtendScript          = Load("extend", "extend_report")
	BreakScript           = Load("break", "queue")
	markBrokenScript      = Load("mark_broken")
	tombstoneScript       = Load("tombstone")
	sharedTombstoneScript = Load("shared_tombstone")
	inspectScript         = Load("inspect")
	takeScript            = Load("take")
	giveScript            = Load("give")
	setLatchScript        = Load("set_latch")
	countDownScript       = Load("count_down")

	AcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master")

	replicatedAcquireScript     = Load("acquire", "turns", "master", "undo_rights")
	replicatedAcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master", "undo_rights")

	DequeueScript    = Load("dequeue", "queue")
	LeaveTurnsScript = Load("leave_turns", "turns")
	TouchScript      = Load("touch")

	inspectRWScript = Load("rw_inspect", "rw_read", "rw")

	initSemaphoreScript   = Load("semaphore_init")
	resizeSemaphoreScript = Load("semaphore_resize", "permits")
	semaphoreInfoScript   = Load("semaphore_info", "permits")

	PermitAcquireScript  = Load("permit_acquire", "permits", "master")
	PermitReleaseScript  = Load("permit_release", "permits")
	PermitRevokeScript   = Load("permit_revoke", "permits")
	permitUndoScript     = Load("permit_undo", "permits")
	PermitRenewScript    = Load("permit_renew", "permits")
	permitRestoreScript  = Load("permit_restore", "permits", "master", "restore_each")
	PermitRenewKeyScript = Load("permit_renew_key", "permits")
	PermitMoveScript     = Load("permit_move", "permits", "set_carrier")

	heldScript  = Load("held", "rw_read", "rw")
	probeScript = Load("probe")
)

// loaded are the scripts by the name of their file. Of scripts that share a file, it has the first.
var loaded = make(map[string]*Script)

// ByName is the script in a file, for tests that wait until it runs.
func ByName(name string) *Script { return loaded[name] }

// Load joins the prelude, the given parts and the script. It removes comments, because Redis keeps
// the text of every script.
func Load(name string, parts ...string) *Script {
	var b strings.Builder
	for _, file := range slices.Concat([]string{"prelude"}, parts, []string{name}) {
		text, err := Files.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("lockcmd: embedded script " + file + ": " + err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
				b.WriteString(code)
				b.WriteByte('\n')
			}
		}
	}
	sum := sha1.Sum([]byte(b.String()))
	sc := &Script{Source: b.String(), SHA: hex.EncodeToString(sum[:]), Shape: ShapeOf(name)}
	if loaded[name] == nil {
		loaded[name] = sc
	}
	return sc
}

// Once is a command that go-redis must not send again. A script that ran but whose reply was lost
// would run twice. Only Leash repeats a call, under the request's own number (R7).
type Once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (Once) NoRetry() bool { return true }

// Command is a call of the script: by its hash (EVALSHA) or by its text (EVAL).
func (sc *Script) Command(ctx context.Context, verb string, keys, args []string) Once {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, sc.body(verb), len(keys))
	for _, words := range [...][]string{keys, args} {
		for _, word := range words {
			all = append(all, word)
		}
	}
	return scriptCommand(ctx, all)
}

// body is the hash or the text, by which the verb calls the script.
func (sc *Script) body(verb string) string {
	if verb == "EVAL" {
		return sc.Source
	}
	return sc.SHA
}

// scriptCommand is a script call with these words.
func scriptCommand(ctx context.Context, all []any) Once {
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	// Otherwise go-redis first asks some node for COMMAND, for up to 5 s, whatever ctx says.
	cmd.SetStepCount(1)
	return Once{cmd}
}

// Processor is a client or a connection of go-redis.
type Processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run runs a script once: by its hash, or by its text if Redis does not know it.
func (sc *Script) Run(ctx context.Context, rdb Processor, keys, args []string) (any, error) {
	cmd := sc.Command(ctx, "EVALSHA", keys, args)
	err := rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = sc.Command(ctx, "EVAL", keys, args)
		err = rdb.Process(ctx, cmd)
	}
	return sc.Checked(cmd.Val(), err)
}

// Checked checks the shape of a reply of go-redis. go-redis returns a null as an error of Redis; no
// script returns one.
func (sc *Script) Checked(reply any, err error) (any, error) {
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ErrShape
	case err != nil:
		return nil, err
	case !sc.Shape.Fits(reply):
		return nil, ErrShape
	}
	return reply, nil
}

// CallPattern finds the commands that a script calls.
var CallPattern = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// Commands are the names of the commands that the script calls.
func (sc *Script) Commands() (names []string) {
	for _, m := range CallPattern.FindAllStringSubmatch(sc.Source, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
