package transport

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io/fs"
	"regexp"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Script is one Lua script.
type Script struct {
	Source, SHA string
}

// Load joins the named files of lua/ to one script. It panics if one is missing.
func Load(files fs.FS, names ...string) *Script {
	var texts []string
	for _, name := range names {
		text, err := fs.ReadFile(files, "lua/"+name+".lua")
		if err != nil {
			panic("lockcmd: embedded script " + name + ": " + err.Error())
		}
		texts = append(texts, string(text))
	}
	source := join(texts)
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// Once is a command that go-redis must not send again. A script that ran but whose reply was lost
// would run twice. Only Leash repeats a call, under the request's own number (R7).
type Once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (Once) NoRetry() bool { return true }

// Command is a call of the script: by its hash (EVALSHA) or by its text (EVAL).
func (sc *Script) Command(ctx context.Context, verb string, keys, args []string) Once {
	body := sc.SHA
	if verb == "EVAL" {
		body = sc.Source
	}
	all := append(make([]any, 0, 3+len(keys)+len(args)), verb, body, len(keys))
	for _, words := range [...][]string{keys, args} {
		for _, word := range words {
			all = append(all, word)
		}
	}
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
		_ = rdb.Process(ctx, cmd) // cmd has the error
	}
	return cmd.Reply()
}

// Reply is the reply of the command. Go-redis returns a null as an error of Redis, but no script
// returns one.
func (cmd Once) Reply() (any, error) {
	reply, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, ErrShape
	case err != nil:
		return nil, err
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
