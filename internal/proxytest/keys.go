package proxytest

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/scan"
	"leash/proxy/slots"
)

// KeyOn returns a key whose slot the node owns.
func KeyOn(t *testing.T, c *redistest.Cluster, n *redistest.Node, prefix string) string {
	t.Helper()
	for i := range 100_000 {
		key := fmt.Sprintf("%s%d", prefix, i)
		if c.MasterOf(int(slots.Of([]byte(key)))) == n {
			return key
		}
	}
	t.Fatal("no key")
	return ""
}

// Bulks returns the elements of a flat list of bulk strings.
func Bulks(reply string) (all []string) {
	lines := strings.Split(reply, "\r\n")
	for i := 1; i+1 < len(lines); i += 2 {
		all = append(all, lines[i+1])
	}
	return all
}

// Fill sets n keys with a prefix and returns them.
func Fill(t testing.TB, c *redistest.Client, prefix string, n int) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, prefix+strconv.Itoa(i))
	}
	for chunk := range slices.Chunk(keys, 500) {
		var raw strings.Builder
		for _, key := range chunk {
			raw.WriteString(redistest.Command("SET", key, "v"))
		}
		go func() { _ = c.Send(raw.String()) }()
		for range chunk {
			if got, err := c.Read(); got != "+OK\r\n" || err != nil {
				t.Fatal(got, err)
			}
		}
	}
	return keys
}

// ScanStep sends one SCAN and parses its reply.
func ScanStep(t testing.TB, c *redistest.Client, cursor uint64, args ...string) (next uint64, keys []string) {
	t.Helper()
	reply := c.Reply(t, append([]string{"SCAN", strconv.FormatUint(cursor, 10)}, args...)...)
	local, list, ok := scan.ParseReply([]byte(reply))
	if !ok {
		t.Fatalf("SCAN %d %q: %.200q", cursor, args, reply)
	}
	return local, Bulks(string(list))
}

// ScanAll scans to the end, through each client in turn, and counts how often each key came.
func ScanAll(t testing.TB, from uint64, clients []*redistest.Client, args ...string) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for cursor, i := from, 0; ; i++ {
		next, keys := ScanStep(t, clients[i%len(clients)], cursor, args...)
		for _, key := range keys {
			seen[key]++
		}
		if cursor = next; cursor == 0 {
			return seen
		}
		if cursor >= 1<<53 {
			t.Fatalf("cursor %d is not below 2^53", cursor)
		}
		if i > 100_000 {
			t.Fatal("the scan does not end")
		}
	}
}

// Digest returns the SHA1 of a script, as EVALSHA takes it.
func Digest(script string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(script))) }
