package lockcmd

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// plainBatch returns a batch of n holds.
func plainBatch(s *Service, n int) (b renewal.Batch) {
	c := s.NewCarrier(1, nil)
	for i := range n {
		h := &hold{carrier: c, naming: numbered("key"+strconv.Itoa(i), int64(i+1)), token: 1e15}
		h.watch.Keeper = h
		b.Holds = append(b.Holds, &h.watch)
	}
	return b
}

// TestR24RenewalsLeaveLittleGarbage: A renewal buffer that is reused allocates nothing.
func TestR24RenewalsLeaveLittleGarbage(t *testing.T) {
	b, s := plainBatch(&Service{identity: newIdentity()}, 256), &store{}
	buf := s.newBuffer()
	answer := []byte("*256\r\n" + strings.Repeat(":1\r\n", 256))
	n := testing.AllocsPerRun(100, func() {
		buf.commands = buf.commands[:0]
		buf.appendRenewal(b)
		buf.nextReply(answer)
	})
	if n > 0 {
		t.Errorf("%v allocations for 256 holds, want none", n)
	}
}

// TestRenewalBufferEqualsTheClientsCommands: The buffer contains the same commands, byte for byte,
// as the client library would send.
func TestRenewalBufferEqualsTheClientsCommands(t *testing.T) {
	t.Parallel()
	for _, m := range append(script.Modes[:], script.Permit) {
		s, buf := &Service{identity: newIdentity()}, &renewalBuffer{}
		var want []byte
		for n := range 40 {
			b := plainBatch(s, n+1)
			b.Lease = n%2 == 1
			b.TTL = 12345 * time.Millisecond
			for i, w := range b.Holds {
				h := w.Keeper.(*hold)
				switch h.kind = m.ID; {
				case i%3 == 0:
					h.naming = named(h.key(), strings.Repeat("o", 128))
				case i%7 == 1:
					h.naming = numbered("", int64(i+1)) // keys may be empty in Redis
				}
			}
			buf.appendRenewal(b)
			keys, args := renewalArgs(b)
			want = (&script.Call{Script: m.Renew, Keys: keys, Args: args}).Append(want)
		}
		if string(buf.commands) != string(want) {
			t.Errorf("%s: got %q, want %q", m.Name, buf.commands, want)
		}
	}
}

// TestRenewalsNameEachHold: The words of each hold have the order that renew.lua reads.
func TestRenewalsNameEachHold(t *testing.T) {
	t.Parallel()
	s := &Service{identity: newIdentity()}
	b := plainBatch(s, 2)
	keys, args := renewalArgs(b)
	carrier := b.Holds[0].Keeper.(*hold).carrier.name
	if want := []string{"key0", "key1"}; !slices.Equal(keys, want) {
		t.Errorf("keys: got %q, want %q", keys, want)
	}
	if want := []string{"0", s.ownerName(1), script.RecordPrefix(1e15, carrier), s.ownerName(2),
		script.RecordPrefix(1e15, carrier)}; !slices.Equal(args, want) {
		t.Errorf("arguments: got %q, want %q", args, want)
	}
}

// TestRenewalBufferReadsReplies: The buffer reads several replies in a row.
func TestRenewalBufferReadsReplies(t *testing.T) {
	t.Parallel()
	buf := &renewalBuffer{}
	text := []byte("*3\r\n:1\r\n:0\r\n:-1\r\n-MOVED 1 127.0.0.1:1\r\n*0\r\n*1\r\n:30001\r\n")
	for _, want := range []struct {
		said   []int64
		failed error
	}{{said: []int64{1, 0, -1}}, {failed: script.ReplyError("MOVED 1 127.0.0.1:1")}, {}, {said: []int64{30001}}} {
		var said []int64
		var failed error
		said, text, failed = buf.nextReply(text)
		if !slices.Equal(said, want.said) || failed != want.failed {
			t.Errorf("got %v, %v, want %v, %v", said, failed, want.said, want.failed)
		}
	}
	if len(text) > 0 {
		t.Errorf("%q is left", text)
	}
	for _, bad := range []string{"", "*", "*1\r\n", "*1\r\n:\r\n", "*2\r\n:1\r\n", "*1\r\n:1", "*2\r\n:1\r\n:1\r",
		"-ERR no", "*1\r\n+OK\r\n", "*-1\r\n", "*9999999999999\r\n:1\r\n", ":1\r\n", "*1\r\n:1x\r\n"} {
		if said, _, failed := buf.nextReply([]byte(bad)); failed == nil {
			t.Errorf("%q reads as %v", bad, said)
		}
	}
}

func FuzzRenewalReplies(f *testing.F) {
	for _, text := range []string{"*1\r\n:1\r\n", "-ERR no\r\n*0\r\n", "*-1\r\n", "*9999999999999\r\n",
		"*1\r\n$1\r\n1\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var buf renewalBuffer
		for rest := []byte(text); len(rest) > 0; {
			_, next, err := buf.nextReply(rest)
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
