package script

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnknown is the error for a request that was sent and whose outcome nobody knows.
var ErrUnknown = errors.New("lockcmd: outcome unknown")

// ErrRefused is the error for a request that Redis certainly did not run. It may take the request
// later.
var ErrRefused = errors.New("lockcmd: Redis did not take the request")

// ErrShape is the error for a reply that the script cannot give. Nobody knows whether the script
// ran.
var ErrShape = errors.New("lockcmd: a reply of another shape than the script's")

// Verdict says what an error means for the script.
type Verdict int

// The verdicts.
const (
	Answered  Verdict = iota // Redis ran it; the error is its answer
	Refused                  // Redis did not run it now, and may later
	Unsent                   // it did not reach Redis
	Ambiguous                // nobody knows whether it ran
)

// Transient are the errors that Redis answers, instead of running a script, for a limited time.
var Transient = []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "MOVED", "ASK", "NOREPLICAS"}

// Migrates reports whether an error says that, in a slot migration, a node does not have all keys
// of a script. Redis finds that before the script runs, or when the script touches the missing key
// (rw.lua).
func Migrates(reply error) bool {
	return redis.HasErrorPrefix(reply, "TRYAGAIN") || strings.Contains(reply.Error(), "attempted to access a non local key")
}

// Judge says what an error of a script call means.
func Judge(err error) Verdict {
	var reply redis.Error
	if errors.As(err, &reply) {
		if Migrates(reply) {
			return Refused
		}
		for _, code := range Transient {
			if redis.HasErrorPrefix(err, code) {
				return Refused
			}
		}
		return Answered
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, ErrRefused) || errors.Is(err, redis.ErrClosed) {
		return Unsent
	}
	return Ambiguous
}

// ErrorText is Redis's error for the client. It cuts off the position in our script, which Redis
// 7 appends and Redis 6 prepends.
func ErrorText(err error) string {
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

// KeysSplit reports whether Redis refused because of a slot migration.
func KeysSplit(err error) bool {
	var reply redis.Error
	return errors.Is(err, ErrRefused) && errors.As(err, &reply) && Migrates(reply)
}
