package upstream

import (
	"log/slog"
	"testing"

	"leash/internal/redistest"
)

// TestOddRepliesOfASentinel: a reply of another type than a list is no list.
func TestOddRepliesOfASentinel(t *testing.T) {
	u, err := New(Config{Addrs: []string{"127.0.0.1:1"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{
		":9223372036854775807\r\n", ":4294967296\r\n", "$3\r\nabc\r\n", "+OK\r\n", "-ERR no\r\n", "*-1\r\n",
		"*1\r\n*1\r\n:1\r\n", "*1\r\n:7\r\n",
	} {
		sentinel := redistest.StartFake(t, func(args []string) string {
			switch args[1] {
			case "GET-MASTER-ADDR-BY-NAME":
				return "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"
			case "MASTER":
				return "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n"
			}
			return odd
		})
		v, err := u.askSentinel(t.Context(), sentinel.Addr)
		if err != nil || v.Master != "127.0.0.1:6379" || v.Epoch != 7 || len(v.Others)+len(v.Replicas) > 0 {
			t.Errorf("%q: got %+v, %v", odd, v, err)
		}
	}
}
