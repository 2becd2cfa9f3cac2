package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/proxy/resp"
)

// heldKeys are the keys of holds.
type heldKeys []string

func (h heldKeys) Len() int { return len(h) }

func (h heldKeys) Hold(i int) RenewedHold { return RenewedHold{h[i], 1e15, "u:1.1"} }

var longOwner = strings.Repeat("o", 128)

func (h heldKeys) AppendOwner(i int, dst []byte) []byte {
	if i%3 == 0 {
		return append(dst, longOwner...)
	}
	return strconv.AppendInt(append(dst, "u:"...), int64(i), 10)
}

// batchOf is a batch of so many holds.
func batchOf(m *Mode, n int) RenewBatch {
	keys := make(heldKeys, n)
	for i := range n {
		if i%7 != 1 { // keys may be empty in Redis
			keys[i] = "key" + strconv.Itoa(i)
		}
	}
	return RenewBatch{Mode: m, Lasts: 12345 * time.Millisecond, Holds: keys}
}

// TestR24RenewalsLeaveLittleGarbage: A buffer that is reused allocates nothing.
func TestR24RenewalsLeaveLittleGarbage(t *testing.T) {
	b, buf := batchOf(Plain, 256), newRenewBuffer()
	answer := []byte("*256\r\n" + strings.Repeat(":1\r\n", 256))
	n := testing.AllocsPerRun(100, func() {
		buf.commands = buf.commands[:0]
		buf.appendCall(&b)
		buf.next(answer)
	})
	if n > 0 {
		t.Errorf("%v allocations for 256 holds, want none", n)
	}
}

// TestRenewBufferEqualsCalls: The buffer contains the same commands, byte for byte, as a call of
// one batch.
func TestRenewBufferEqualsCalls(t *testing.T) {
	t.Parallel()
	for _, m := range append(Modes[:], Permit) {
		var want []byte
		var buf renewBuffer
		for n := range 40 {
			b := batchOf(m, n+1)
			if n%2 == 1 {
				b.Lasts = 0
			}
			buf.appendCall(&b)
			call := b.call()
			want = resp.AppendCommand(want, slices.Concat([]string{"EVALSHA", call.Script.SHA,
				strconv.Itoa(len(call.Keys))}, call.Keys, call.Args)...)
		}
		if string(buf.commands) != string(want) {
			t.Errorf("%s: got %q, want %q", m.Name, buf.commands, want)
		}
	}
}

// TestRenewBufferReadsReplies: The buffer reads several replies in a row.
func TestRenewBufferReadsReplies(t *testing.T) {
	t.Parallel()
	var buf renewBuffer
	text := []byte("*3\r\n:1\r\n:0\r\n:-1\r\n-MOVED 1 127.0.0.1:1\r\n*0\r\n*1\r\n:30001\r\n")
	for _, want := range []struct {
		replies []RenewReply
		failed  error
	}{{replies: []RenewReply{1, 0, -1}}, {failed: resp.ReplyError("MOVED 1 127.0.0.1:1")}, {},
		{replies: []RenewReply{30001}}} {
		var replies []RenewReply
		var failed error
		replies, text, failed = buf.next(text)
		if !slices.Equal(replies, want.replies) || failed != want.failed {
			t.Errorf("got %v, %v, want %v, %v", replies, failed, want.replies, want.failed)
		}
	}
	if len(text) > 0 {
		t.Errorf("%q is left", text)
	}
	for _, bad := range []string{"", "*", "*1\r\n", "*1\r\n:\r\n", "*2\r\n:1\r\n", "*1\r\n:1", "*2\r\n:1\r\n:1\r",
		"-ERR no", "*1\r\n+OK\r\n", "*-1\r\n", "*9999999999999\r\n:1\r\n", ":1\r\n", "*1\r\n:1x\r\n"} {
		if replies, _, failed := buf.next([]byte(bad)); failed == nil {
			t.Errorf("%q reads as %v", bad, replies)
		}
	}
}

// TestR24UnknownScriptIsSentByItsText: If Redis does not know the script of a renewal, it gets the
// text at once. The hash again would cost a round trip. With a short TTL, an attempt would be over
// before Redis gets the text, and so would the next attempts.
func TestR24UnknownScriptIsSentByItsText(t *testing.T) {
	t.Parallel()
	links := &fakeLinks{reply: "-NOSCRIPT No matching script.\r\n", alone: "*1\r\n:1\r\n", sent: true}
	c := New(links)
	held := false
	c.RenewBatches(t.Context(), []RenewBatch{batchOf(Plain, 1)}, func(_ int, r RenewResult) {
		held = len(r.Replies) == 1 && r.Replies[0].Held()
	})
	if !held || links.scripts != 1 || !strings.Contains(links.command, "\r\nEVAL\r\n") {
		t.Errorf("held %v, %d scripts, the last one %.80q", held, links.scripts, links.command)
	}
}

func FuzzRenewReplies(f *testing.F) {
	for _, text := range []string{"*1\r\n:1\r\n", "-ERR no\r\n*0\r\n", "*-1\r\n", "*9999999999999\r\n",
		"*1\r\n$1\r\n1\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var buf renewBuffer
		for rest := []byte(text); len(rest) > 0; {
			_, next, err := buf.next(rest)
			if err != nil {
				break
			}
			if len(next) >= len(rest) {
				t.Fatalf("%q: nothing is read", rest)
			}
			rest = next
		}
	})
}

// TestR25RefusedBatchesAreNotSplit: Redis refuses a batch of renewals. If the server serves nothing
// now, the outcome is unknown. If one hold may be the cause, the batch counts as refused.
func TestR25RefusedBatchesAreNotSplit(t *testing.T) {
	t.Parallel()
	c, b := New(&fakeLinks{}), batchOf(Plain, 1)
	for _, row := range []struct {
		err     error
		refused bool
	}{
		{resp.ReplyError("CLUSTERDOWN The cluster is down"), false},
		{resp.ReplyError("LOADING Redis is loading the dataset in memory"), false},
		{resp.ReplyError("READONLY You can't write against a read only replica."), false},
		{resp.ReplyError("UNRENEWED MISCONF Errors writing to the AOF file"), false},
		{errors.New("i/o timeout"), false},
		// one key may exist (R14)
		{resp.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{resp.ReplyError("NOPERM No permissions to access a key"), true},
		{resp.ReplyError("ERR Error running script"), true},
	} {
		r := c.renewResult(t.Context(), &b, nil, row.err, time.Now())
		if r.Refused != row.refused || len(r.Replies) > 0 {
			t.Errorf("%v: got %+v, want refused %t", row.err, r, row.refused)
		}
	}
}

// TestRenewalsTogether: Batches that Redis has not run, because their slot has moved or it does not
// know the script, are sent alone. When Redis may have run a batch, its outcome is unknown.
func TestRenewalsTogether(t *testing.T) {
	yes, broken := "*1\r\n:1\r\n", errors.New("broken")
	for _, row := range []struct {
		name, reply string
		sent        bool
		err         error
		alone       int
		want        string // the replies of each batch
		dropped     int
	}{
		{"answered", yes + "*1\r\n:0\r\n", true, nil, 0, "map[0:[1] 1:[0]]", 0},
		{"one has moved", "-MOVED 7 127.0.0.1:1\r\n" + yes, true, nil, 1, "map[0:[7] 1:[1]]", 0},
		{"one is on its way", yes + "-ASK 7 127.0.0.1:1\r\n", true, nil, 1, "map[0:[1] 1:[7]]", 0},
		{"no such script", strings.Repeat("-NOSCRIPT no\r\n", 2), true, nil, 2, "map[0:[7] 1:[7]]", 0},
		{"not served", "-CLUSTERDOWN no\r\n" + yes, true, nil, 0, "map[0:[] 1:[1]]", 0},
		{"not sent", "", false, broken, 0, "map[0:[] 1:[]]", 0},
		{"sent and lost", "", true, broken, 0, "map[0:[] 1:[]]", 0},
		{"a reply too few", yes, true, nil, 0, "map[0:[1] 1:[]]", 1},
		{"a hold too many", yes + "*2\r\n:1\r\n:1\r\n", true, nil, 0, "map[0:[1] 1:[]]", 1},
		{"no replies of Redis", "what\r\n" + yes, true, nil, 0, "map[0:[] 1:[]]", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			links := &fakeLinks{reply: row.reply, alone: "*1\r\n:7\r\n", sent: row.sent, err: row.err}
			c, got := New(links), make(map[int][]RenewReply)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c.RenewBatches(ctx, []RenewBatch{batchOf(Plain, 1), batchOf(Plain, 1)}, func(i int, r RenewResult) {
				got[i] = slices.Clone(r.Replies)
			})
			if fmt.Sprint(got) != row.want || links.scripts != row.alone || len(links.dropped) != row.dropped {
				t.Errorf("got %v, %d alone, %d dropped, want %s, %d, %d", got, links.scripts, len(links.dropped),
					row.want, row.alone, row.dropped)
			}
		})
	}
}
