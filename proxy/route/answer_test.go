package route

import (
	"context"
	"errors"
	"testing"
)

// TestGathering checks that a gathering waits for all its replies, those in pieces and those that
// are lost, and says of each what became of it.
func TestGathering(t *testing.T) {
	r := &Router{Config: Config{Context: context.Background()}}
	g := newGathering(r, 3)
	whole, pieces, lost := &Answer{of: g}, &Answer{of: g}, &Answer{of: g}
	cause := errors.New("reset")
	whole.Reply([]byte("-ERR no\r\n"), true)
	pieces.Reply([]byte("$2\r\n"), false)
	lost.Bytes = []byte("$9\r\nhalf")
	lost.Lost(true, cause)
	select {
	case <-g.done:
		t.Fatal("a reply is not whole")
	default:
	}
	pieces.Reply([]byte("ab\r\n"), true)
	g.Await(nil) // the session lives, so no link is broken
	if !whole.IsError() || whole.Missing || string(pieces.Bytes) != "$2\r\nab\r\n" || pieces.IsError() {
		t.Errorf("got %q and %q", whole.Bytes, pieces.Bytes)
	}
	if !lost.Missing || !lost.Written || !errors.Is(lost.Cause, cause) || lost.Bytes != nil || lost.IsError() {
		t.Errorf("lost: %+v", lost)
	}
	if !lost.Sent() {
		t.Error("it was sent")
	}
	if lost.Forget(); lost.Sent() {
		t.Error("it is not forgotten")
	}
	newGathering(r, 0).Await(nil) // nothing to wait for
}
