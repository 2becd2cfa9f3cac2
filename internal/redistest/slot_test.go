package redistest

import (
	"math/rand/v2"
	"testing"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 0x31C3, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "{}foo": Slot("{}foo"), "foo{": Slot("foo{"),
	} {
		if got := Slot(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestSlotIsRediss(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{Masters: 1})
	keys := []string{"{}a", "a{", "a}b{", "{{b}}", "x{}{y}", "}{", "{a}{b}", "{\x00}"}
	for range 200 {
		b := make([]byte, rand.IntN(12))
		for i := range b {
			b[i] = "{}ab\x00\xff"[rand.IntN(6)]
		}
		keys = append(keys, string(b))
	}
	for _, key := range keys {
		want, err := c.Nodes[0].Client().ClusterKeySlot(t.Context(), key).Result()
		if got := Slot(key); err != nil || got != int(want) {
			t.Errorf("%q: got %d, want %d, %v", key, got, want, err)
		}
	}
}

func TestKeyInEverySlot(t *testing.T) {
	for slot := range SlotCount {
		if slot%97 != 0 && slot != SlotCount-1 {
			continue
		}
		if key := KeyIn(slot, "k:"); Slot(key) != slot {
			t.Fatalf("got %q, in slot %d, for slot %d", key, Slot(key), slot)
		}
	}
}
