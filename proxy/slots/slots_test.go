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

func TestParseRedirect(t *testing.T) {
	for reply, want := range map[string]Redirect{
		"-MOVED 3999 127.0.0.1:6381\r\n":          {3999, "127.0.0.1:6381", false},
		"-ASK 0 [fd00::1]:7001\r\n":               {0, "[fd00::1]:7001", true},
		"-MOVED 16383 :7001\r\n":                  {16383, ":7001", false},
		"-MOVED 1 redis.host:7001 more words\r\n": {1, "redis.host:7001", false},
		"-MOVED 16384 a:1\r\n":                    {},
		"-MOVED -1 a:1\r\n":                       {},
		"-MOVED 1\r\n":                            {},
		"-ASK\r\n":                                {},
		"-MOVEDX 1 a:1\r\n":                       {},
		"-ERR MOVED 1 a:1\r\n":                    {},
		"+MOVED 1 a:1\r\n":                        {},
		"":                                        {},
	} {
		if got, ok := ParseRedirect([]byte(reply)); got != want || ok != (want.Addr != "") {
			t.Errorf("%q: got %+v, %v", reply, got, ok)
		}
	}
}

func TestIsRefusal(t *testing.T) {
	for reply, want := range map[string]bool{
		"-MOVED 1 a:1\r\n": true, "-ASK 1 a:1\r\n": true, "-TRYAGAIN Multiple keys\r\n": true,
		"-CLUSTERDOWN Hash slot not served\r\n": true, "-ERR MOVED\r\n": false, "-ASKED x\r\n": false,
		"+MOVED 1 a:1\r\n": false, "": false,
	} {
		if got := IsRefusal([]byte(reply)); got != want {
			t.Errorf("%q: got %v", reply, got)
		}
	}
}
