package rights

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// refusalFor is how long an answer of Redis about a user and a command is used.
const refusalFor = time.Second

// ownUserTimeout is how long a command waits for Redis's answer about Leash's own user.
const ownUserTimeout = 100 * time.Millisecond

// maxRefusals limits how many answers are kept.
const maxRefusals = 4096

// refusals remembers which users may run which commands. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	known map[refusalKey]refusal
}

type refusalKey struct{ user, command string }

type refusal struct {
	text  string // empty: the user may
	until time.Time
}

// get returns the last known answer. If there is none or it is too old, fresh is false for the
// first caller, who asks again. The others use the old answer until then. So Redis gets one
// question a second.
func (r *refusals) get(k refusalKey) (text string, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[k]
	if now := time.Now(); ok && now.After(known.until) {
		r.known[k] = refusal{known.text, now.Add(refusalFor)}
		return known.text, false
	}
	return known.text, ok
}

func (r *refusals) set(k refusalKey, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRefusals {
		r.known = make(map[refusalKey]refusal)
	}
	r.known[k] = refusal{text, time.Now().Add(refusalFor)}
}

// Refusal returns Redis's error for a lane's user who may not run a command, without '-' and line
// end. It is empty if the user may run it. It is for commands that Leash does not send to Redis as
// the user. name is the command's full name, args are all of its arguments. If Redis does not let
// Leash ask, every user may run every command.
//
// It blocks for a round trip, at most for the upstream time-out. The answer is kept for a second.
// An answer that depends on the arguments, as for channels, is not kept. Leash's own user serves
// clients without authentication. For that user, Refusal blocks for at most ownUserTimeout and
// then uses the previous answer. So a PING is answered in any state of Redis.
func (c *Checker) Refusal(ctx context.Context, lane dial.Lane, name string, args [][]byte) (string, error) {
	user := lane.ACLUser()
	timeout, own := c.up.Dialer.Timeout(), c.isOwn(user)
	if own {
		timeout = ownUserTimeout
	}
	key, byArguments := refusalKey{user, name}, strings.HasSuffix(name, "subscribe")
	known, fresh := c.refusals.get(key)
	if fresh && !byArguments {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	question := slices.Concat([][]byte{[]byte("ACL"), []byte("DRYRUN"), []byte(user)}, args)
	reply, err := c.ask(ctx, nil, resp.AppendCommand(nil, question...), 1)
	switch {
	case err != nil && own:
		return known, nil
	case err != nil:
		return "", err
	}
	answer := "" // also for an error: from an older Redis, or from one that does not let Leash ask
	if said, ok := resp.Text(reply); ok {
		answer = string(said)
	}
	text := ""
	switch {
	case strings.Contains(answer, "no permissions to run"):
		// DRYRUN's text begins with a capital letter, NOPERM's does not
		text = "NOPERM " + strings.Replace(answer, "This user", "this user", 1)
	case strings.HasSuffix(answer, " channel"):
		return "NOPERM this user has no permissions to access one of the channels used as arguments", nil
	case strings.HasSuffix(answer, " key"):
		return "NOPERM this user has no permissions to access one of the keys used as arguments", nil
	}
	if !byArguments {
		c.refusals.set(key, text)
	}
	return text, nil
}
