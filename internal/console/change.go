package console

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"leash/lockcmd/release"
	"leash/lockcmd/script/transport"
)

// maxConfirmed is how many holders a request to break a lock may name.
const maxConfirmed = 1000

// breakLock ends a lock against its holders' will. The request has the token of each hold that its
// sender has seen. If another holder has the lock by now, nothing happens.
func (c *Console) breakLock(q question) (any, error) {
	key, db, err := q.lock()
	if err != nil {
		return nil, err
	}
	tokens, err := q.tokens()
	if err != nil {
		return nil, err
	}
	outcome, err := q.Locks.Break(db, key, tokens)
	switch {
	case errors.Is(err, release.ErrOtherHolder):
		return nil, &refusal{http.StatusConflict, "another holder has the lock by now: nothing was done, look again"}
	case transport.IsSilence(err):
		return nil, &refusal{http.StatusGatewayTimeout, "Redis did not answer in time: look whether the lock is broken"}
	case err != nil:
		return nil, refusalOf(err)
	}
	if outcome != release.WasFree {
		c.cfg.Log.Info("lock broken at the admin port", "key", key, "db", db, "tokens", tokens, "remote", q.RemoteAddr)
	}
	said := map[release.BreakOutcome]string{
		release.WasFree:   "The lock was free.",
		release.WasTold:   "The lock is broken. Its holder was told.",
		release.WasForced: "The lock is broken. Nobody confirmed that its holder knows.",
	}[outcome]
	return map[string]string{"said": said}, nil
}

// tokens are the confirmed tokens.
func (q question) tokens() (tokens []int64, err error) {
	texts := q.Values["token"]
	if len(texts) == 0 || len(texts) > maxConfirmed {
		return nil, badInput("give the token of each holder, from 1 to %d, as in token=1795602726208790", maxConfirmed)
	}
	for _, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, badInput("token is a number, not %q", shown(text))
		}
		tokens = append(tokens, n)
	}
	return tokens, nil
}

// killClient ends the connection of a client.
func (c *Console) killClient(q question) (any, error) {
	id, err := q.number("id", 0, 1, math.MaxInt)
	switch {
	case err != nil:
		return nil, err
	case id == 0:
		return nil, badInput("give the id of the client")
	case !q.Server.KillClient(int64(id)):
		return nil, &refusal{http.StatusNotFound, "there is no such client"}
	}
	c.cfg.Log.Info("client killed at the admin port", "session", id, "remote", q.RemoteAddr)
	return map[string]string{"said": "The connection is closed. Its locks run out."}, nil
}
