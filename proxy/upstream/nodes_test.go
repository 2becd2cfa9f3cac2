package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// TestFirstAnswer checks in which order masters are asked, and which answer is taken when. A master
// is described by the seconds until it answers, or until it fails if a '!' follows.
func TestFirstAnswer(t *testing.T) {
	for _, test := range []struct {
		name    string
		masters string
		answer  string // the address, or "" for an error
		after   time.Duration
		asked   int
	}{
		{"the first answers", "0 0 0", "m0:1", 0, 1},
		{"the first fails", "0! 0 0", "m1:1", 0, 2},
		{"the first does not answer", "90 0 0", "m1:1", time.Second, 2},
		{"the last one has the rest of the time", "90 90 2", "m2:1", 4 * time.Second, 3},
		{"three do not answer", "90 90 90 0", "m3:1", 3 * time.Second, 4},
		{"all fail", "0! 0! 1!", "", time.Second, 3},
		{"none answers", "90 90 90", "", 5 * time.Second, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { firstAnswer(t, test.masters, test.answer, test.after, test.asked) })
		})
	}
}

// firstAnswer runs one case of TestFirstAnswer.
func firstAnswer(t *testing.T, described, want string, after time.Duration, wantAsked int) {
	masters := strings.Fields(described)
	u := &Upstream{log: slog.New(slog.DiscardHandler)}
	layout := topology.Layout{Cluster: true}
	does := make(map[string]string)
	for i, what := range masters {
		addr := fmt.Sprintf("m%d:1", i)
		does[addr] = what
		slot := slots.Slot(i)
		layout.Ranges = append(layout.Ranges, topology.Range{First: slot, Last: slot, Addrs: []string{addr}})
	}
	nodes := make(map[string]*links.Node)
	u.topology.Store(layout.Snapshot(func(addr string) *links.Node {
		nodes[addr] = &links.Node{Addr: addr}
		return nodes[addr]
	}, false))
	var asked atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	answer, err := u.FirstAnswer(ctx, nodes["m0:1"], func(ctx context.Context, n *links.Node) ([]byte, error) {
		asked.Add(1)
		seconds, fails := strings.CutSuffix(does[n.Addr], "!")
		takes, _ := strconv.Atoi(seconds)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(takes) * time.Second):
		}
		if fails {
			return nil, errors.New(n.Addr + " fails")
		}
		return []byte(n.Addr), nil
	})
	if string(answer) != want || (err == nil) != (want != "") {
		t.Errorf("got %q and error %v, want %q", answer, err, want)
	}
	if took := time.Since(began); took != after {
		t.Errorf("the answer came after %v, want %v", took, after)
	}
	if int(asked.Load()) != wantAsked {
		t.Errorf("%d masters were asked, want %d", asked.Load(), wantAsked)
	}
}
