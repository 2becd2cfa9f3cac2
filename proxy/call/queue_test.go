package call

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"leash/proxy/slots"
)

// counter counts the calls that need its bytes.
type counter int

func (h *counter) RetainLocked()  { *h++ }
func (h *counter) ReleaseLocked() { *h-- }

// TestQueueCounts checks what a queue counts, in any order of pushes and ends, and that calls are
// reused.
func TestQueueCounts(t *testing.T) {
	s := newSession()
	q := &s.queue
	used := make(map[*Call]bool)
	var source counter
	for _, step := range []struct {
		request  int // its size, or 0 to end the oldest call
		n, bytes int // what is in flight afterwards
	}{
		{10, 1, 10},
		{20, 2, 30},
		{0, 1, 20},
		{5, 2, 25},
		{0, 1, 5},
		{0, 0, 0},
		{7, 1, 7},
	} {
		if step.request > 0 {
			p := q.Push(&Whole{Bytes: make([]byte, step.request), Source: &source, Slot: slots.Any})
			used[p.call] = true
			if q.YoungestLocked() != p.call {
				t.Fatal("the new call is not the youngest")
			}
		} else {
			q.head.Finish(make([]byte, 100))
		}
		if q.n != step.n || q.bytes != step.bytes || int(source) != step.n {
			t.Errorf("%d calls with %d bytes and %d retained, want %d with %d", q.n, q.bytes, source, step.n, step.bytes)
		}
		if (q.n == 0) != (q.head == nil) || (q.n == 0) != (q.tail == nil) {
			t.Error("the ends of the queue do not fit its length")
		}
	}
	if len(used) != 2 || s.idle != 1 {
		t.Errorf("%d calls were made, want 2; idle %d times, want 1", len(used), s.idle)
	}
}

// TestWindowFollowsReplies checks that fewer calls are in flight after a large reply, and at least
// one.
func TestWindowFollowsReplies(t *testing.T) {
	for largest, want := range map[int]int{0: maxCalls, firstReply: replyWindow / firstReply, replyWindow: 1,
		1 << 30: 1} {
		q := Queue{largest: largest}
		if got := q.window(); got != want {
			t.Errorf("after a reply of %d bytes, %d calls may be in flight, want %d", largest, got, want)
		}
	}
}

// TestRepliesKeepTheirOrder lets replies arrive in any order and in pieces, among them errors of
// Leash, replies of Leash itself, muted calls and messages. The client gets them in the order of
// its commands, and no message within a reply.
func TestRepliesKeepTheirOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSession()
		q := &s.queue
		type open struct {
			part *Part
			left int // pieces of the reply
		}
		var inFlight []*open
		var want strings.Builder // the replies in order
		messages, pieces := 0, 0
		for n := range 200 {
			step := random.IntN(6)
			if q.n > 20 { // below the window, so that nothing waits
				step = 5
			}
			switch step {
			case 0, 1:
				q.Muted = random.IntN(10) == 0
				one := &open{part: s.push(slots.Any, "x"), left: 1 + random.IntN(4)}
				inFlight = append(inFlight, one)
				if !q.Muted {
					fmt.Fprintf(&want, "[%d:%s]", n, strings.Repeat("x", one.left-1))
				}
				one.part.Command = fmt.Appendf(nil, "[%d:", n)
			case 2:
				q.Muted = false
				q.Answer(fmt.Appendf(nil, "[%d:]", n))
				fmt.Fprintf(&want, "[%d:]", n)
			case 3:
				if f := q.Deliver([]byte("(message)")); f != nil {
					f.Flush()
				}
				messages++
			default:
				if len(inFlight) == 0 {
					continue
				}
				i := random.IntN(len(inFlight))
				one := inFlight[i]
				piece := string(one.part.Command)
				one.part.Command = []byte("x")
				if one.left--; one.left == 0 {
					piece += "]"
					inFlight = append(inFlight[:i], inFlight[i+1:]...)
				}
				pieces++
				if f := one.part.Reply([]byte(piece), one.left == 0); f != nil {
					f.Flush()
				}
			}
		}
		for _, one := range inFlight {
			piece := string(one.part.Command)
			for ; one.left > 1; one.left-- {
				one.part.Reply([]byte(piece), false)
				piece = "x"
			}
			one.part.Reply([]byte(piece+"]"), true)
		}
		got := s.got()
		if n := strings.Count(got, "(message)"); n != messages {
			t.Fatalf("seed %d: %d messages, want %d", seed, n, messages)
		}
		inside := false
		for i := range got {
			inside = got[i] == '[' || inside && got[i] != ']'
			if inside && got[i] == '(' {
				t.Fatalf("seed %d: a message within a reply: %s", seed, got)
			}
		}
		if got = strings.ReplaceAll(got, "(message)", ""); got != want.String() {
			t.Fatalf("seed %d: got %s, want %s", seed, got, &want)
		}
		if q.kept != 0 || q.n != 0 || q.bytes != 0 {
			t.Fatalf("seed %d: %d bytes kept, %d calls, %d bytes of requests", seed, q.kept, q.n, q.bytes)
		}
	}
}
