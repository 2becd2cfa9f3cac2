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

// script is one Lua script, as Redis knows it.
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
	dequeueScript     = loadScript("dequeue", "queue")
	touchScript       = loadScript("touch")

	inspectRWScript = loadScript("rw_inspect", "rw_read", "rw")
)

// loadScript puts the prelude in front of a script, and behind it the parts that this one needs.
// Comments stay here: Redis keeps the text of every script.
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

// once is a command that go-redis must not send again by itself: a script that ran although its
// reply was lost would run twice. Sending again is ours alone, under the request's own number (R7).
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

// body is what the script is called by.
func (sc *script) body(verb string) string {
	if verb == "EVAL" {
		return sc.source
	}
	return sc.sha
}

// scriptCommand is a call of a script, of all its words.
func scriptCommand(ctx context.Context, all []any) once {
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	// else go-redis asks some node for COMMAND first, for up to 5 s whatever ctx says
	cmd.SetStepCount(1)
	return once{cmd}
}

// processor is a client or a connection of go-redis.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run executes a script once: by its hash, or by its text where Redis does not have it yet.
func (sc *script) run(ctx context.Context, rdb processor, keys, args []string) (any, error) {
	cmd := sc.command(ctx, "EVALSHA", keys, args)
	err := rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = sc.command(ctx, "EVAL", keys, args)
		err = rdb.Process(ctx, cmd)
	}
	return sc.checked(cmd.Val(), err)
}

// checked is the script's reply, as go-redis gives it, if it is one that the script gives. A null,
// which go-redis takes for an error of Redis's, is none.
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

// verdict says what an error of a script means for the script.
type verdict int

const (
	answered  verdict = iota // Redis ran it: the error is its answer
	refused                  // Redis did not run it, and may do so later
	unsent                   // it never reached Redis
	ambiguous                // nobody knows whether it ran
)

// transient are the errors Redis gives instead of running a script, for as long as something lasts.
var transient = []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "MOVED", "ASK", "NOREPLICAS"}

// migrates reports whether an error of Redis's says that a slot migrates and has not all keys of a
// script on one node. Redis finds that out before it begins, or where the script touches the key
// that is missing, see rw.lua.
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

// scriptError is Redis's answer to a script as a client should see it: Redis's own error, without
// where in our script it came up (Redis 7 adds that behind, Redis 6 in front).
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
