package lockcmd

import (
	"reflect"
	"strconv"
	"testing"

	"leash/renewal"
)

// TestR24AMillionHoldsFit: what a hold is made of is a whole size class of Go's, and there may be a million of it.
func TestR24AMillionHoldsFit(t *testing.T) {
	if size := reflect.TypeFor[hold]().Size(); size > 160 {
		t.Errorf("a hold takes %d bytes, want 160 at most: what only few have belongs into extra", size)
	}
}

// TestR24ABatchIsMadeOfFewPieces: 100,000 holds may have to be renewed a second, and what each leaves for the garbage collector counts.
func TestR24ABatchIsMadeOfFewPieces(t *testing.T) {
	s := &Service{uuid: newUUID()}
	c := s.NewCarrier(1, nil)
	b := renewal.Batch{}
	for i := range 256 {
		h := &hold{carrier: c, mode: plain, id: lockID{0, "key" + strconv.Itoa(i)}, number: int64(i + 1), token: 1e15}
		h.watch.Keeper = h
		b.Holds = append(b.Holds, &h.watch)
	}
	if n := testing.AllocsPerRun(100, func() { keepAlive(t.Context(), "EVALSHA", b) }); n > 40 {
		t.Errorf("%v allocations for 256 holds, want 40 at most", n)
	}
	cmd := keepAlive(t.Context(), "EVALSHA", b)
	last, args := b.Holds[255].Keeper.(*hold), cmd.Args()
	if n := 4 + 3*256; len(args) != n || *args[3+255].(*string) != "key255" || *args[n-2].(*string) != s.uuid+":256" ||
		*args[n-1].(*string) != mark(last.token, c.name) {
		t.Errorf("got %d words, ending in %v", len(args), args[len(args)-1])
	}
}
