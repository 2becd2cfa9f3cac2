package lockcmd

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"leash/renewal"
)

// plainBatch is a batch of n holds.
func plainBatch(s *Service, n int) (b renewal.Batch) {
	c := s.NewCarrier(1, nil)
	for i := range n {
		h := &hold{carrier: c, naming: numbered("key"+strconv.Itoa(i), int64(i+1)), token: 1e15}
		h.watch.Keeper = h
		b.Holds = append(b.Holds, &h.watch)
	}
	return b
}

// TestR24RenewalsLeaveLittleGarbage: of what go-redis makes for each command.
func TestR24RenewalsLeaveLittleGarbage(t *testing.T) {
	b, p := plainBatch(&Service{uuid: newUUID()}, 256), &paper{}
	n := testing.AllocsPerRun(100, func() {
		p.keepAlive(t.Context(), "EVALSHA", b)
		p.clear()
	})
	if n > 20 {
		t.Errorf("%v allocations for 256 holds, want 20 at most", n)
	}
}

// TestPaperSaysWhatTheScriptReads, also when it has to grow beneath what was written.
func TestPaperSaysWhatTheScriptReads(t *testing.T) {
	s, p := &Service{uuid: newUUID()}, &paper{}
	for range 2 { // the second time it is used again
		var cmds []once
		var want []string
		for n := range 40 {
			b := plainBatch(s, n+1)
			cmds = append(cmds, p.keepAlive(t.Context(), "EVALSHA", b))
			words := []string{"EVALSHA", renewScript.sha, strconv.Itoa(n + 1)}
			for i := range b.Holds {
				words = append(words, "key"+strconv.Itoa(i))
			}
			words = append(words, "0")
			for i, w := range b.Holds {
				words = append(words, s.ownerName(int64(i+1)), mark(1e15, w.Keeper.(*hold).carrier.name))
			}
			want = append(want, strings.Join(words, "|"))
		}
		for i, cmd := range cmds {
			var words []string
			for _, arg := range cmd.Args() {
				switch arg := arg.(type) {
				case *string:
					words = append(words, *arg)
				case *piece:
					words = append(words, string(*arg))
				default:
					words = append(words, fmt.Sprint(arg))
				}
			}
			if got := strings.Join(words, "|"); got != want[i] {
				t.Fatalf("got %s, want %s", got, want[i])
			}
		}
		p.clear()
	}
}
