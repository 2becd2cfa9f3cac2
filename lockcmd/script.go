package lockcmd

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// script is one Lua script.
type script struct {
	source, sha string
	shape       shape // of its replies
}

var (
	acquireScript         = loadScript("acquire", "master")
	releaseScript         = loadScript("release", "queue")
	handoverScript        = loadScript("handover", "queue", "master")
	revokeScript          = loadScript("revoke", "queue")
	moveScript            = loadScript("move", "set_carrier")
	undoScript            = loadScript("undo", "queue")
	renewScript           = loadScript("renew")
	restoreScript         = loadScript("restore", "master")
	extendScript          = loadScript("extend")
	breakScript           = loadScript("break", "queue")
	markBrokenScript      = loadScript("mark_broken")
	tombstoneScript       = loadScript("tombstone")
	sharedTombstoneScript = loadScript("shared_tombstone")
	inspectScript         = loadScript("inspect")
	takeScript            = loadScript("take")
	giveScript            = loadScript("give")
	setLatchScript        = loadScript("set_latch")
	countDownScript       = loadScript("count_down")

	acquireFairScript = loadScript("acquire", "queue", "fair_head", "master")

	replicatedAcquireScript     = loadScript("acquire", "master", "undo_rights")
	replicatedAcquireFairScript = loadScript("acquire", "queue", "fair_head", "master", "undo_rights")

	dequeueScript = loadScript("dequeue", "queue")
	touchScript   = loadScript("touch")

	inspectRWScript = loadScript("rw_inspect", "rw_read", "rw")
)

// loadScript joins the prelude, the given parts and the script. It removes comments, because Redis
// keeps the text of every script.
func loadScript(name string, parts ...string) *script {
	var b strings.Builder
	for _, file := range slices.Concat([]string{"prelude"}, parts, []string{name}) {
		text, err := scriptFiles.ReadFile("scripts/" + file + ".lua")
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
	return &script{source: b.String(), sha: hex.EncodeToString(sum[:]), shape: shapeOf(name)}
}

// once is a command that go-redis must not send again. A script that ran but whose reply was lost
// would run twice. Only Leash repeats a call, under the request's own number (R7).
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func (sc *script) command(ctx context.Context, verb string, keys, args []string) once {
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
func (sc *script) body(verb string) string {
	if verb == "EVAL" {
		return sc.source
	}
	return sc.sha
}

// scriptCommand is a script call with these words.
func scriptCommand(ctx context.Context, all []any) once {
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	// Otherwise go-redis first asks some node for COMMAND, for up to 5 s, whatever ctx says.
	cmd.SetStepCount(1)
	return once{cmd}
}

// processor is a client or a connection of go-redis.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run runs a script once: by its hash, or by its text if Redis does not know it.
func (sc *script) run(ctx context.Context, rdb processor, keys, args []string) (any, error) {
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
func (sc *script) checked(reply any, err error) (any, error) {
	switch {
	case errors.Is(err, redis.Nil):
		return nil, errShape
	case err != nil:
		return nil, err
	case !sc.shape.fits(reply):
		return nil, errShape
	}
	return reply, nil
}

// verdict says what an error means for the script.
type verdict int

const (
	answered  verdict = iota // Redis ran it; the error is its answer
	refused                  // Redis did not run it now, and may later
	unsent                   // it did not reach Redis
	ambiguous                // nobody knows whether it ran
)

// transient are the errors that Redis answers, instead of running a script, for a limited time.
var transient = []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "MOVED", "ASK", "NOREPLICAS"}

// migrates reports whether an error says that, in a slot migration, a node does not have all keys
// of a script. Redis finds that before the script runs, or when the script touches the missing key
// (rw.lua).
func migrates(reply error) bool {
	return redis.HasErrorPrefix(reply, "TRYAGAIN") || strings.Contains(reply.Error(), "attempted to access a non local key")
}

func judge(err error) verdict {
	var reply redis.Error
	if errors.As(err, &reply) {
		if migrates(reply) {
			return refused
		}
		for _, code := range transient {
			if redis.HasErrorPrefix(err, code) {
				return refused
			}
		}
		return answered
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errRefused) || errors.Is(err, redis.ErrClosed) {
		return unsent
	}
	return ambiguous
}

// scriptError is Redis's error for the client. It cuts off the position in our script, which Redis
// 7 appends and Redis 6 prepends.
func scriptError(err error) string {
	text := err.Error()
	if at, _, ok := strings.Cut(text, " script: "); ok {
		text = at
	}
	if i := strings.LastIndex(text, "@user_script: "); i >= 0 {
		if _, rest, ok := strings.Cut(text[i+len("@user_script: "):], ": "); ok {
			text = rest
		}
	}
	text = strings.TrimPrefix(text, "-")
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
