package transport

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// oneNode has links to one node.
type oneNode struct{ Links }

func (oneNode) Owners() []int              { return nil }
func (oneNode) NodeAddr(slots.Slot) string { return "redis:6379" }

// TestEachReasonIsLoggedOnce: a Redis that needs a password gives two reasons in turn, one for long
// commands and one for short ones. A node whose slot moves may give one to each lock. The log has
// each of them once.
func TestEachReasonIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := New(oneNode{})
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	reasons := []string{"NOAUTH Authentication required.", "ERR Protocol error: unauthenticated multibulk length",
		"TRYAGAIN Multiple keys request during rehashing of slot"}
	for range 3 {
		for _, reason := range reasons {
			c.NoteRefusal("k", resp.ReplyError(reason))
		}
	}
	for _, reason := range reasons {
		if n := strings.Count(log.String(), reason); n != 1 {
			t.Errorf("%q is in the log %d times", reason, n)
		}
	}
}
