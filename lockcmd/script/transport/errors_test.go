package transport

import (
	"leash/proxy/resp"
	"strings"
	"testing"
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
