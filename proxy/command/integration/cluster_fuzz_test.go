package command_test

import (
	"maps"
	"slices"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/cluster"
)

// FuzzClusterArguments gives any arguments to the subcommands of CLUSTER that Leash answers. A
// cluster of one node gives the same replies.
func FuzzClusterArguments(f *testing.F) {
	names := slices.Sorted(maps.Keys(cluster.Commands()))
	for i, name := range names {
		f.Add(uint8(i), uint8(1), "1", "10")
		if name == "GETKEYSINSLOT" || name == "COUNTKEYSINSLOT" {
			for _, slot := range []string{"-1", "16384", "+1", "01", " 1", "1e3", "9223372036854775808", "", "12182"} {
				f.Add(uint8(i), uint8(2), slot, "2")
				f.Add(uint8(i), uint8(2), "12182", slot)
			}
		}
		for _, text := range []string{"", "{a}b", "a\r\nb", "\x00", "0123456789012345678901234567890123456789", "%s"} {
			f.Add(uint8(i), uint8(1), text, text)
		}
	}
	one := redistest.StartCluster(f, redistest.ClusterOptions{Masters: 1}).Nodes[0].Addr
	l := proxytest.Start(f, []string{one})
	redis, client := proxytest.Dial(f, one), l.Dial(f)
	for _, key := range []string{"foo", "{foo}1", "{foo}2", "bar"} { // three are in slot 12182
		redis.Want(f, "+OK\r\n", "SET", key, "x")
	}
	f.Fuzz(func(t *testing.T, name, count uint8, a, b string) {
		subcommand := names[int(name)%len(names)]
		ask := func(c *redistest.Client, addr string) string {
			args := []string{"CLUSTER", subcommand, a, b}
			return likeOneNode(c.Reply(t, args[:2+int(count)%3]...), addr)
		}
		if got, want := ask(client, l.Addr), ask(redis, one); got != want {
			t.Errorf("CLUSTER %s %q %q: got %q, want %q", subcommand, a, b, got, want)
		}
	})
}
