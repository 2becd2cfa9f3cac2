package dial

import (
	"errors"
	"fmt"
	"strings"

	"leash/proxy/resp"
)

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
