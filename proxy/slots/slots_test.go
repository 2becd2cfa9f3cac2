package slots

import (
	"testing"

	"leash/internal/redistest"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]Slot{"": 0, "123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182,
		"a{foo}{bar}": 12182} {
		if got := Of([]byte(key)); got != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
}

func TestSlotAsRedisHasIt(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 3})
	client := c.Nodes[0].Client()
	for _, key := range []string{"", "a", "foo", "{foo}", "{foo}x", "x{foo}y{z}", "{}a", "a{b", "a}b", "{{a}}",
		"\x00\xff{\r\n}"} {
		want, err := client.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := Of([]byte(key)); int64(got) != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
}
