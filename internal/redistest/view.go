package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// queryTimeout bounds each query of this package to a server.
const queryTimeout = 10 * time.Second

// nodeInfo is one line of CLUSTER NODES: how one node sees another, or itself.
type nodeInfo struct {
	id       string
	flags    map[string]bool // myself, master, slave, fail?, fail, handshake, noaddr ...
	masterID string          // "-" for a master
	epoch    int64
	linked   bool
	slots    []slotRange
}

type slotRange struct{ first, last int }

func (r slotRange) has(slot int) bool { return r.first <= slot && slot <= r.last }

func (n *nodeInfo) has(slot int) bool {
	for _, r := range n.slots {
		if r.has(slot) {
			return true
		}
	}
	return false
}

// view is how one node sees the cluster, by node id.
type view map[string]*nodeInfo

func (v view) self() *nodeInfo {
	for _, n := range v {
		if n.flags["myself"] {
			return n
		}
	}
	return &nodeInfo{}
}

// owners is the master of each slot, as text. All nodes agree on it in the end.
func (v view) owners() string {
	var owners []string
	for id, n := range v {
		for _, r := range n.slots { // maximal ranges, so equal slots give equal texts
			owners = append(owners, fmt.Sprintf("%05d-%05d %s", r.first, r.last, id))
		}
	}
	slices.Sort(owners)
	return strings.Join(owners, "\n")
}

// view asks a node for its view.
func (n *Node) view() (view, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	text, err := n.Client().ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("CLUSTER NODES of %s: %w", n.Server.Addr, err)
	}
	return parseView(text)
}

func parseView(text string) (view, error) {
	v := view{}
	for line := range strings.Lines(text) {
		n, err := parseNodeInfo(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("%w in CLUSTER NODES line %q", err, line)
		}
		v[n.id] = n
	}
	return v, nil
}

// parseNodeInfo parses the fields of a line: id, address, flags, master, ping sent, pong received,
// epoch, link state, slots. It ignores slots in migration, [slot->-id] and [slot-<-id], because
// they do not change the owner.
func parseNodeInfo(f []string) (*nodeInfo, error) {
	if len(f) < 8 {
		return nil, fmt.Errorf("%d fields", len(f))
	}
	n := &nodeInfo{id: f[0], flags: map[string]bool{}, masterID: f[3], linked: f[7] == "connected"}
	for flag := range strings.SplitSeq(f[2], ",") {
		n.flags[flag] = true
	}
	var err error
	if n.epoch, err = strconv.ParseInt(f[6], 10, 64); err != nil {
		return nil, err
	}
	for _, text := range f[8:] {
		if strings.HasPrefix(text, "[") {
			continue
		}
		r, err := parseSlotRange(text)
		if err != nil {
			return nil, err
		}
		n.slots = append(n.slots, r)
	}
	return n, nil
}

func parseSlotRange(text string) (slotRange, error) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		last = first
	}
	var r slotRange
	var err error
	if r.first, err = strconv.Atoi(first); err != nil {
		return r, err
	}
	r.last, err = strconv.Atoi(last)
	return r, err
}
