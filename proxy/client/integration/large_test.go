package client_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

func TestLargeAndBinaryValues(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	binary := make([]byte, 16<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range binary {
		binary[i] = byte(rng.Uint32())
	}
	value := string(binary)
	for _, key := range []string{"big", "\x00\xff\r\n*3\r\n", strings.Repeat("k", 1<<20)} {
		client.Want(t, "+OK\r\n", "SET", key, value)
		client.Want(t, fmt.Sprintf("$%d\r\n%s\r\n", len(value), value), "GET", key)
	}
	reply := client.Reply(t, "MGET", "big", "none", "\x00\xff\r\n*3\r\n")
	if want := fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$-1\r\n$%d\r\n%s\r\n", len(value), value, len(value),
		value); reply != want {
		t.Errorf("MGET gave %d bytes, want %d", len(reply), len(want))
	}
}

// TestOneByteAtATime checks that a large value that arrives byte by byte needs no more memory than
// its size.
func TestOneByteAtATime(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	l := proxytest.Start(t, []string{plain.Addr})
	client := l.Dial(t)
	raw := redistest.Command("SET", "k", strings.Repeat("v", 200<<10))
	for i := range len(raw) {
		if err := client.Send(raw[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := client.Read(); got != "+OK\r\n" || err != nil {
		t.Fatal(got, err)
	}
	client.Want(t, ":204800\r\n", "STRLEN", "k")
}
