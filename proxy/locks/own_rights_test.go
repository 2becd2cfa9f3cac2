package locks_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	lockscript "leash/lockcmd/script"
	"leash/proxy/dial"
	"leash/proxy/rights"
	"leash/proxy/upstream"
)

// documentedRights returns the words of the ACL SETUSER command that docs/operations.md recommends,
// from the password on.
func documentedRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\nACL SETUSER leash on >open-sesame ")
	line, _, end := strings.Cut(rest, "\n")
	if !ok || !end {
		t.Fatal("no ACL SETUSER command")
	}
	return strings.Fields(line)
}

// TestDocumentedRightsAreEnough checks that Leash's own user needs no other right than the
// documented ones, whatever clients do.
func TestDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for name, addrs := range map[string][]string{"cluster": cluster.Addrs(), "standalone": {redistest.Start(t).Addr}} {
		t.Run(name, func(t *testing.T) {
			var nodes []*redistest.TestClient
			for _, addr := range addrs {
				nodes = append(nodes, redistest.Connect(t, addr))
			}
			all := func(args ...string) {
				for _, n := range nodes {
					n.Do(args...)
				}
			}
			all(append([]string{"ACL", "SETUSER", "leash", "on", ">pw"}, documentedRights(t)...)...)
			l := proxytest.Start(t, addrs, func(o *proxytest.Options) {
				o.Upstream.User, o.Upstream.Password = "leash", "pw"
			})
			for _, scene := range lockScenes {
				all("FLUSHALL")
				run, end := scene.start(t, l)
				if reply := run(scene.step); strings.Contains(reply, "NOPERM") {
					t.Errorf("%s: %q", scene.step, reply)
				}
				end()
			}
			c := l.Dial(t)
			if name == "cluster" {
				releaseInMigratingSlot(t, cluster, c)
			}
			for _, args := range [][]string{
				{"SUBSCRIBE", "news"}, {"PSUBSCRIBE", "n*"}, {"SSUBSCRIBE", "news"}, {"UNSUBSCRIBE"}, {"PUNSUBSCRIBE"},
				{"SUNSUBSCRIBE"}, {"SCAN", "0"}, {"DBSIZE"}, {"RANDOMKEY"}, {"CLIENT", "LIST"}, {"PUBSUB", "NUMSUB", "news"},
				{"MULTI"}, {"SET", "k", "v"}, {"EXEC"}, {"BLPOP", "q", "0.01"},
			} {
				if reply := c.Reply(t, args...); reply[0] == '-' {
					t.Errorf("%q: %q", args, reply)
				}
			}
			for i, n := range nodes {
				if log := n.Do("ACL", "LOG"); log != "*0\r\n" {
					t.Errorf("%s refused: %s", addrs[i], log)
				}
			}
		})
	}
}

// releaseInMigratingSlot checks that a lock is released whose key has moved before the whole slot.
func releaseInMigratingSlot(t *testing.T, cluster *redistest.Cluster, c *redistest.Client) {
	t.Helper()
	const slot = 5
	key := redistest.KeyIn(slot, "k")
	if reply := c.Reply(t, "LOCK.ACQUIRE", key); reply[0] != ':' {
		t.Fatalf("not acquired: %q", reply)
	}
	from, to := cluster.MasterOf(slot), cluster.Masters()[0]
	if to == from {
		to = cluster.Masters()[1]
	}
	move, err := cluster.BeginMove(slot, to)
	if err == nil {
		_, err = move.MoveKeys(-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Want(t, ":1\r\n", "LOCK.RELEASE", key)
	if err := move.Finish(); err != nil {
		t.Fatal(err)
	}
}

// TestMissingOwnRightIsNamed checks that Leash says which of the documented rights its own user
// lacks: in the error that ends its start, or in a warning.
func TestMissingOwnRightIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct := redistest.Connect(t, s.Addr)
	rights := documentedRights(t)
	for _, right := range rights {
		if right[0] != '+' && right[0] != '&' {
			continue
		}
		direct.Want("+OK\r\n", append([]string{"ACL", "SETUSER", "leash", "reset", "on", ">pw"},
			slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })...)...)
		name := strings.TrimRight(strings.ReplaceAll(right[1:], "|", " "), "*")
		if said := startAsOwnUser(t, s.Addr); !strings.Contains(strings.ReplaceAll(said, "|", " "), name) {
			t.Errorf("without %s, Leash says %q", right, said)
		}
	}
}

// startAsOwnUser starts an Upstream as the user leash. It returns what it says about rights.
func startAsOwnUser(t *testing.T, addr string) string {
	t.Helper()
	logs := &proxytest.LogBuffer{}
	log := slog.New(slog.NewTextHandler(logs, nil))
	up, err := upstream.New(upstream.Config{Addrs: []string{addr},
		Config: dial.Config{User: "leash", Password: "pw"}}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- up.Run(ctx) }()
	defer func() { cancel(); <-done }()
	up.Nodes.Go("check of own rights", func(ctx context.Context) {
		rights.WarnMissing(ctx, up, lockscript.AllCommands(), log)
	})
	proxytest.Eventually(t, "it warns", func() bool { return strings.Contains(logs.String(), "rights") })
	return logs.String()
}
