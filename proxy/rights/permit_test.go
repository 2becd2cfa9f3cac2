package rights

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
	"leash/proxy/upstream"
)

// startChecker starts a cluster with a user bob, and a checker for it.
func startChecker(t *testing.T) (cluster *redistest.Cluster, c *Checker) {
	t.Helper()
	cluster = redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", "nopass", "~bob:*",
			"+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	u, err := upstream.New(upstream.Config{Addrs: cluster.Addrs(),
		Config: dial.Config{UpstreamTimeout: 20 * time.Second}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return cluster, New(u, slog.New(slog.DiscardHandler))
}

// TestPermitWithSilentNode checks that another node soon answers for the rights to keys
// whose own node is silent, and that one denied key denies the command.
func TestPermitWithSilentNode(t *testing.T) {
	t.Parallel()
	cluster, c := startChecker(t)
	slots := []int{0, 8000, 16000} // one of each node
	var mine, foreign [][]byte
	for _, slot := range slots {
		mine = append(mine, []byte(redistest.KeyIn(slot, "bob:")))
		foreign = append(foreign, []byte(redistest.KeyIn(slot, "ann:")))
	}
	bob := dial.Lane{User: "bob"}
	check := func() {
		t.Helper()
		if err := c.Permit(t.Context(), bob, mine, "HSET", "f", "v"); err != nil {
			t.Errorf("the user's own keys: %v", err)
		}
		for i := range slots {
			keys := append([][]byte{foreign[i]}, mine...)
			var denied *Denied
			if err := c.Permit(t.Context(), bob, keys, "HSET", "f", "v"); !errors.As(err, &denied) || !denied.Key {
				t.Errorf("with another's key in slot %d: %v", slots[i], err)
			}
		}
	}
	check()
	if err := c.Permit(t.Context(), bob, nil, "SCAN", "0"); err != nil {
		t.Errorf("a command without keys: %v", err)
	}
	if err := c.Permit(t.Context(), dial.Lane{User: "ann"}, mine, "HSET", "f", "v"); !errors.Is(err, dial.ErrRefused) {
		t.Errorf("an unknown user: %v", err)
	}
	if err := c.Permit(t.Context(), bob, mine, "NOPE"); !errors.Is(err, ErrNoCheck) {
		t.Errorf("an unknown command: %v", err)
	}
	if err := cluster.MasterOf(slots[1]).Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	check()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
	for range 5 { // the node that is asked first is any
		if err := c.Permit(t.Context(), bob, nil, "SCAN", "0"); err != nil {
			t.Errorf("a command without keys: %v", err)
		}
	}
}

// TestRefusalWithTwoSilentNodes checks that one node that answers is enough, before Leash has
// noticed that the others are silent. The node that is asked first is any.
func TestRefusalWithTwoSilentNodes(t *testing.T) {
	t.Parallel()
	cluster, c := startChecker(t)
	for _, n := range cluster.Nodes[1:] {
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	var asking sync.WaitGroup
	for _, name := range []string{"ping", "multi", "time"} { // each is a question of its own
		asking.Go(func() {
			text, err := c.Refusal(t.Context(), dial.Lane{User: "bob"}, name, [][]byte{[]byte(name)})
			if text != "" || err != nil {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		})
	}
	asking.Wait()
}
