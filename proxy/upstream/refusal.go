package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// refusalFor is for how long Redis's word on a user and a command is believed.
const refusalFor = time.Second

// ownPatience is how long a command waits for that word on Leash's own user.
const ownPatience = 100 * time.Millisecond

// maxRefusals bounds how many answers are kept.
const maxRefusals = 4096

// refusals remembers which users may run which commands. Safe for concurrent
// use.
type refusals struct {
	mu    sync.Mutex
	known map[refusalKey]refusal
}

type refusalKey struct{ user, command string }

type refusal struct {
	text  string // empty: the user may
	until time.Time
}

// get returns the known answer. If it is too old, the first caller asks again and the others use
// the old answer until then. So Redis gets one question a second.
func (r *refusals) get(k refusalKey) (text string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[k]
	if now := time.Now(); ok && now.After(known.until) {
		r.known[k] = refusal{known.text, now.Add(refusalFor)}
		return "", false
	}
	return known.text, ok
}

// last is what was known last, however old.
func (r *refusals) last(k refusalKey) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[k].text
}

func (r *refusals) set(k refusalKey, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRefusals {
		r.known = make(map[refusalKey]refusal)
	}
	r.known[k] = refusal{text, time.Now().Add(refusalFor)}
}

// Refusal is Redis's error for a lane's user who may not run a command, without '-' and line end.
// It is empty if the user may. It is for commands that never reach Redis under the user's own name.
// name is the command's full name, args all of its arguments. If Redis cannot be asked, every user
// may. It blocks for a round trip. The answer is kept for a second, unless it depends on the
// arguments, as for channels. For Leash's own user, which serves clients without authentication, it
// blocks for ownPatience at most and then uses the previous answer. So a PING is answered in any
// state of Redis.
func (u *Upstream) Refusal(ctx context.Context, lane Lane, name string, args [][]byte) (string, error) {
	user := lane.User
	if user == "" {
		user = "default"
	}
	patience, own := askTimeout, user == u.serviceUser()
	if own {
		patience = ownPatience
	}
	key, byArguments := refusalKey{user, name}, strings.HasSuffix(name, "subscribe")
	if text, ok := u.refusals.get(key); ok && !byArguments {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	question := []any{"ACL", "DRYRUN", user}
	for _, a := range args {
		question = append(question, a)
	}
	answer, err := u.Client().Do(ctx, question...).Text()
	var reply redis.Error
	switch {
	case errors.As(err, &reply): // an older Redis, or one that does not let Leash ask
		answer = "OK"
	case err != nil && own:
		return u.refusals.last(key), nil
	case err != nil:
		return "", err
	}
	text := ""
	switch {
	case strings.Contains(answer, "no permissions to run"):
		// DRYRUN begins a sentence
		text = "NOPERM " + strings.Replace(answer, "This user", "this user", 1)
	case strings.HasSuffix(answer, " channel"):
		return "NOPERM this user has no permissions to access one of the channels used as arguments", nil
	case strings.HasSuffix(answer, " key"):
		return "NOPERM this user has no permissions to access one of the keys used as arguments", nil
	}
	if !byArguments {
		u.refusals.set(key, text)
	}
	return text, nil
}

// refuse tells the lane's sessions that their credential is no longer valid. It does nothing for a
// replica, which may have other users than its master, or for a node that has just joined and has
// no users yet.
func (u *Upstream) refuse(lane Lane, by *Node) {
	if lane.Replica || slices.Contains(u.Topology().slotless, by) {
		return
	}
	u.log.Warn("redis refuses a user's password", "user", lane.User)
	if u.onRefused != nil {
		u.onRefused(lane)
	}
}

// closeAnonymous ends the links without authentication. Redis requires it from new connections now,
// and leaves the old ones as they were.
func (u *Upstream) closeAnonymous() {
	u.mu.Lock()
	nodes := u.nodesLocked()
	u.mu.Unlock()
	if u.Topology() != nil { // at the start nothing has changed
		u.log.Warn("redis now requires clients to authenticate")
	}
	for _, n := range nodes {
		n.dropLinks(func(lane Lane) bool { return lane.User == "" })
	}
}
