package transport

import (
	"strings"
	"testing"
	"time"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// TestErrorTextIsNeverEmpty checks that an error of Redis stays one when nothing is left of its
// text: a client would take the empty text for success.
func TestErrorTextIsNeverEmpty(t *testing.T) {
	for _, text := range []string{"", " ", "-", "\r\n", " script: abc", "ERR x @user_script: 1: "} {
		if got := ErrorText(resp.ReplyError(text)); strings.TrimSpace(got) == "" {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// TestErrorTextHasNoPosition checks that the position in the script goes, and nothing else.
func TestErrorTextHasNoPosition(t *testing.T) {
	const failure = "ERR ACL failure in script: No permissions to access a key"
	for text, want := range map[string]string{
		"WRONGTYPE Operation script: 1a8c67671c98, on @user_script:12.": "WRONGTYPE Operation",
		failure + " script: 1a8c67671c98, on @user_script:1.":           failure,
		failure + " script: on @user_script:1.":                         failure, // Valkey 9
		failure:                                                         failure,
		"ERR Error running script (call to f_1a8c): @user_script:1: @user_script: 1: WRONGTYPE x": "WRONGTYPE x",
	} {
		if got := ErrorText(resp.ReplyError(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestTransientErrorsOfOtherVersions checks errors that Redis 7.0 does not have.
func TestTransientErrorsOfOtherVersions(t *testing.T) {
	for _, text := range []string{
		"ERR Can not execute a write command 'SET' while the cluster is down and readonly",
		"ERR Attempted to access a non local key in a cluster node",
	} {
		if got := Judge(resp.ReplyError(text)); got != Refused {
			t.Errorf("%q: got %v, want it to be tried again", text, got)
		}
	}
}

// denied are links to a Redis that finds that name denied.
type denied struct {
	Links
	name string
}

func (d denied) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, _, dst []byte) ([]byte, bool, error) {
	return resp.AppendBulk(dst, d.name), true, nil
}

func (denied) Owners() []int { return nil }

// TestMissingRightIsNamed checks the errors about missing rights of all versions.
func TestMissingRightIsNamed(t *testing.T) {
	const position = " script: 1a8c67671c988614eb0c618efa73283c54565629, on @user_script:1."
	const failure = "ERR " + scriptFailure
	for text, want := range map[string]string{
		msgMissingRight + position:                                     "to run the 'del' command on that key",
		failure + "User u has no permissions to run the 'del' command": "to run the 'del' command on that key",
		"NOPERM this user has no permissions to run the 'x' command":   "to run the 'x' command",
		"NOPERM User u has no permissions to run the 'x' command":      "to run the 'x' command",
		"NOPERM No permissions to access a key":                        "to access the key 'DEL'",
		failure + "No permissions to access a key" + position:          "to access the key 'DEL'",
	} {
		c := New(denied{name: "DEL"})
		got := c.nameMissingRight(&Call{Script: &Script{}, Keys: []string{"k"}}, resp.ReplyError(text))
		if got.Error() != "NOPERM Leash's own user has no permissions "+want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if text := "WRONGTYPE x"; New(denied{}).nameMissingRight(nil, resp.ReplyError(text)).Error() != text {
		t.Errorf("%q is about no right", text)
	}
}
