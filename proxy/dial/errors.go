package dial

import (
	"errors"
	"fmt"
	"strings"

	"leash/proxy/resp"
)

// ErrRefused means that Redis refuses the credential of a lane.
var ErrRefused = errors.New("upstream: credential refused")

// SameReason reports whether the texts of two errors have the same reason. Digits do not count:
// times, and the ports of Leash's own sockets, are different in each attempt.
func SameReason(a, b string) bool { return withoutDigits(a) == withoutDigits(b) }

func withoutDigits(reason string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, reason)
}

// Refusal says why there is no connection for a call, in words for the client. The call was not
// sent.
type Refusal struct {
	Reason string // begins with a lower-case letter, no end mark
}

// Error implements error.
func (r *Refusal) Error() string { return "upstream: " + r.Reason }

// Explained adds the settings to check to an error.
func (d *Dialer) Explained(err error) error {
	user, password, sentinels := "--upstream-user", "--upstream-password-file (or LEASH_UPSTREAM_PASSWORD)", ""
	if _, ok := errors.AsType[*sentinelError](err); ok {
		user, password = "--sentinel-user", "--sentinel-password-file (or LEASH_SENTINEL_PASSWORD)"
		sentinels = " of the sentinels"
	}
	switch {
	case hasErrorCode(err, "NOAUTH"):
		return fmt.Errorf("%w: a password%s is needed: give %s, and %s unless the user is \"default\"", err,
			sentinels, password, user)
	case hasErrorCode(err, "WRONGPASS"):
		return fmt.Errorf("%w: check %s and %s", err, user, password)
	case hasErrorCode(err, "NOPERM"):
		return fmt.Errorf("%w: Leash's own user needs more rights: check %s", err, user)
	case errors.Is(err, resp.ErrFrame):
		return fmt.Errorf("%w: the server there is no Redis, or expects TLS: check the port and --upstream-tls", err)
	}
	return d.explainedTLS(err)
}

func IsAuthError(err error) bool {
	return hasErrorCode(err, "NOAUTH") || hasErrorCode(err, "WRONGPASS") || hasErrorCode(err, "NOPERM")
}

// hasErrorCode reports whether an error's text contains an error code of Redis.
func hasErrorCode(err error, code string) bool { return strings.Contains(err.Error(), code+" ") }

// SentinelError wraps an error of AskSentinel.
func SentinelError(err error) error { return &sentinelError{fmt.Errorf("sentinel %w", err)} }

// sentinelError is an answer of a sentinel, not of Redis.
type sentinelError struct{ err error }

func (e *sentinelError) Error() string { return e.err.Error() }
func (e *sentinelError) Unwrap() error { return e.err }
