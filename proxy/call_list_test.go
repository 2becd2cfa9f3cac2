package proxy

import "testing"

// TestCallListCounts checks what a list of calls counts, in any order of pushes and pops, and that
// calls are reused.
func TestCallListCounts(t *testing.T) {
	s := new(session)
	l := &s.calls
	used := make(map[*call]bool)
	in := new(batch)
	for _, step := range []struct {
		request  int // its size, or 0 to remove the oldest call
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
			c := l.take(s)
			used[c] = true
			c.bytes, c.in = step.request, in
			l.push(c)
			if l.tail != c {
				t.Fatal("the new call is not the youngest")
			}
		} else {
			c := l.head
			c.size = 100
			l.pop()
			l.recycle(c)
		}
		if l.n != step.n || l.bytes != step.bytes {
			t.Errorf("%d calls with %d bytes, want %d with %d", l.n, l.bytes, step.n, step.bytes)
		}
		if (l.n == 0) != (l.head == nil) || (l.n == 0) != (l.tail == nil) {
			t.Error("the ends of the list do not fit its length")
		}
	}
	if len(used) != 2 {
		t.Errorf("%d calls were made, want 2", len(used))
	}
	if in.refs != 4 {
		t.Errorf("the batch has %d calls, want 4", in.refs)
	}
}

// TestWindowFollowsReplies checks that fewer calls are in flight after a large reply, and at least
// one.
func TestWindowFollowsReplies(t *testing.T) {
	for largest, want := range map[int]int{0: maxCalls, firstReply: replyWindow / firstReply, replyWindow: 1,
		1 << 30: 1} {
		l := callList{largest: largest}
		if got := l.window(); got != want {
			t.Errorf("after a reply of %d bytes, %d calls may be in flight, want %d", largest, got, want)
		}
	}
}
