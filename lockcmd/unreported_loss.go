package lockcmd

import (
	"bytes"
	"slices"

	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// unreportedLoss is a hold that was lost under ONLOSS ERROR and whose owner must be told.
type unreportedLoss struct {
	lock   script.Lock
	owner  string
	token  int64
	reason string
}

// takeUnreportedLoss returns and removes an unreported loss of one of the command's keys, to be the
// reply. If the TOKEN or OWNER of the command names another hold, the command runs instead.
// Otherwise the reply would be taken for the end of that hold.
func (c *Carrier) takeUnreportedLoss(verb []byte, args [][]byte) (key, reason string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unreportedLosses) == 0 || len(args) == 0 {
		return "", "", false
	}
	if !bytes.HasPrefix(verb, []byte("LOCK.")) || string(verb) == notifyName {
		return "", "", false
	}
	keys, options := args[:1], args[1:]
	if bytes.HasPrefix(verb, []byte("LOCK.M")) {
		n, _ := resp.ParseInt(args[0])
		end := max(1, min(n+1, int64(len(args))))
		keys, options = args[1:end], args[end:]
	}
	owner := ownerNamed(options)
	for i, k := range keys {
		id := c.id(string(k))
		token := tokenNamed(options, i, len(keys))
		at := slices.IndexFunc(c.unreportedLosses, func(f unreportedLoss) bool {
			return f.lock == id && f.token == token
		})
		if at < 0 && !c.hasLocked(id, token) {
			at = slices.IndexFunc(c.unreportedLosses, func(f unreportedLoss) bool {
				return f.lock == id && (owner == "" || owner == f.owner)
			})
		}
		if at >= 0 {
			reason = c.unreportedLosses[at].reason
			c.unreportedLosses = slices.Delete(c.unreportedLosses, at, at+1)
			return id.Key, reason, true
		}
	}
	return "", "", false
}

// hasLocked reports whether the connection holds the lock with that token.
func (c *Carrier) hasLocked(id script.Lock, token int64) bool {
	for h := range c.holdsNewestFirstLocked() {
		if h.lock() == id && h.token == token && h.state == held {
			return true
		}
	}
	return false
}

// tokenNamed is the token for one of the keys, by TOKEN or TOKENS; 0 for none.
func tokenNamed(options [][]byte, key, keys int) (token int64) {
	for i, arg := range options {
		at := i + 1
		if bytes.EqualFold(arg, []byte("TOKENS")) {
			at += key
		} else if keys > 1 || !bytes.EqualFold(arg, []byte("TOKEN")) {
			continue
		}
		if at < len(options) {
			token, _ = resp.ParseInt(options[at])
		}
	}
	return token
}

// ownerNamed is the OWNER in the options; "" for none.
func ownerNamed(options [][]byte) (owner string) {
	for i, arg := range options {
		if bytes.EqualFold(arg, []byte("OWNER")) && i+1 < len(options) {
			owner = string(options[i+1])
		}
	}
	return owner
}

// lossText is the error that tells the client of the loss of h. A loss of its own hold need not be
// told again.
func (c *Carrier) lossText(h *hold, reason string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.carrier == c {
		c.unreportedLosses = slices.DeleteFunc(c.unreportedLosses, func(f unreportedLoss) bool {
			return f.lock == h.lock() && f.token == h.token
		})
	}
	return msgLost(h.key(), reason)
}
