package script

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"regexp"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Files are the Lua scripts and their parts.
//
//go:embed lua/*.lua
var Files embed.FS

// Script is one Lua script.
type Script struct {
	Source, SHA string
	shape       shape // of its replies
}

var (
	AcquireScript         = Load("acquire", "acquire_free", "turns", "master", "again", "plain_again")
	ReleaseScript         = Load("release", "release_alone", "turns", "queue", "take_back", "release_reply")
	HandoverScript        = Load("handover", "turns", "queue", "master", "take_back", "release_reply")
	RevokeScript          = Load("revoke", "queue", "revoke_report", "take_back")
	MoveScript            = Load("move", "set_carrier")
	undoScript            = Load("undo", "queue", "take_back")
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

	AcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master", "again", "plain_again")

	replicatedAcquireScript = Load("acquire", "undo_rights", "acquire_free", "turns", "master", "again",
		"plain_again")
	replicatedAcquireFairScript = Load("acquire", "turns", "queue", "fair_head", "master", "undo_rights", "again",
		"plain_again")

	dequeueScript    = Load("dequeue", "queue")
	leaveTurnsScript = Load("leave_turns", "turns")
	TouchScript      = Load("touch")

	inspectRWScript = Load("rw_inspect", "rw_read", "rw")

	initSemaphoreScript   = Load("semaphore_init")
	resizeSemaphoreScript = Load("semaphore_resize", "permits")
	semaphoreInfoScript   = Load("semaphore_info", "permits")

	PermitAcquireScript  = Load("permit_acquire", "turns", "permits", "master")
	PermitReleaseScript  = Load("permit_release", "turns", "permits")
	PermitHandoverScript = Load("permit_handover", "turns", "permits", "master")
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

// Load joins the prelude, the given parts and the script.
func Load(name string, parts ...string) *Script {
	var files []string
	for _, file := range slices.Concat([]string{"prelude"}, parts, []string{name}) {
		text, err := Files.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("lockcmd: embedded script " + file + ": " + err.Error())
		}
		files = append(files, string(text))
	}
	source := join(files)
	sum := sha1.Sum([]byte(source))
	sc := &Script{Source: source, SHA: hex.EncodeToString(sum[:]), shape: shapeOf(name)}
	if loaded[name] == nil {
		loaded[name] = sc
	}
	return sc
}

// once is a command that go-redis must not send again. A script that ran but whose reply was lost
// would run twice. Only Leash repeats a call, under the request's own number (R7).
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// command is a call of the script: by its hash (EVALSHA) or by its text (EVAL).
func (sc *Script) command(ctx context.Context, verb string, keys, args []string) once {
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
func scriptCommand(ctx context.Context, all []any) once {
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	// Otherwise go-redis first asks some node for COMMAND, for up to 5 s, whatever ctx says.
	cmd.SetStepCount(1)
	return once{cmd}
}

// Processor is a client or a connection of go-redis.
type Processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run runs a script once: by its hash, or by its text if Redis does not know it.
func (sc *Script) Run(ctx context.Context, rdb Processor, keys, args []string) (any, error) {
	cmd := sc.command(ctx, "EVALSHA", keys, args)
	err := rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = sc.command(ctx, "EVAL", keys, args)
		err = rdb.Process(ctx, cmd)
	}
	return sc.checked(cmd.Val(), err)
}

// checked checks the shape of a reply of go-redis. go-redis returns a null as an error of Redis; no
// script returns one.
func (sc *Script) checked(reply any, err error) (any, error) {
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ErrShape
	case err != nil:
		return nil, err
	case !sc.shape.fits(reply):
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

// AllCommands are the names of the commands that any script calls, in order.
func AllCommands() (names []string) {
	files, _ := fs.Glob(Files, "lua/*.lua")
	for _, file := range files {
		text, _ := Files.ReadFile(file) // it is embedded
		for _, m := range CallPattern.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// shape describes the replies of a script: lists of integers and texts. A single integer counts as
// a list of one. In kinds, 'i' is an integer and 's' a text. A reply may have more items.
type shape struct {
	kinds string           // the first items of every reply
	code  map[int64]string // by the first integer: the items after it
	// replies are lists of any length; kinds are the allowed items
	list bool
}

// shapes are the shapes by script, see the head of each script. All other scripts answer an integer
// first.
var shapes = map[string]shape{
	"acquire":        acquireShape,
	"rw_acquire":     acquireShape,
	"permit_acquire": {kinds: "i", code: map[int64]string{0: "i", 1: "i", 2: "sss", 6: "s"}},
	"move":           moveShape,
	"rw_move":        moveShape,
	"permit_move":    moveShape,
	"permit_revoke":  {kinds: "i", code: map[int64]string{-2: "ssi"}},
	"take":           {kinds: "i", code: map[int64]string{1: "i"}},
	"semaphore_info": {kinds: "ii"},
	"inspect":        {kinds: "iiii"},
	"rw_inspect":     {kinds: "iii"},
	"renew":          {kinds: "i", list: true},
	"rw_renew":       {kinds: "i", list: true},
	"permit_renew":   {kinds: "i", list: true},
	"restore":        {kinds: "is", list: true},
	"rw_restore":     {kinds: "is", list: true},
	"permit_restore": {kinds: "is", list: true},
	"probe":          {kinds: "is", list: true}, // the caller checks the length
}

var (
	acquireShape = shape{kinds: "i", code: map[int64]string{0: "i", 1: "ii", 2: "sss", 6: "s"}}
	moveShape    = shape{kinds: "i", code: map[int64]string{1: "iiiis"}}
)

// shapeOf is the shape of the script with that name.
func shapeOf(name string) shape {
	if sh, ok := shapes[name]; ok {
		return sh
	}
	return shape{kinds: "i"}
}

// fits reports whether reply, from decode, integers or go-redis, has this shape.
func (sh shape) fits(reply any) bool {
	items, mixed := reply.([]any)
	_, list := reply.([]int64)
	if _, single := reply.(int64); !mixed && !list && (!single || sh.list) {
		return false
	}
	n := integersOf(reply)
	kind := func(i int) byte {
		if mixed {
			return kindOf(items[i])
		}
		return 'i'
	}
	if sh.list {
		for i := range n {
			if k := kind(i); k != sh.kinds[0] && k != sh.kinds[len(sh.kinds)-1] {
				return false
			}
		}
		return true
	}
	begins := func(from int, kinds string) bool {
		for i := range len(kinds) {
			if from+i >= len(n) || kind(from+i) != kinds[i] {
				return false
			}
		}
		return true
	}
	return begins(0, sh.kinds) && begins(1, sh.code[n[0]])
}

func kindOf(item any) byte {
	switch item.(type) {
	case int64:
		return 'i'
	case string:
		return 's'
	}
	return '?'
}
