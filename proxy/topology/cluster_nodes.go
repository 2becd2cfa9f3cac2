package topology

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// nodeLine is a line of CLUSTER NODES (https://redis.io/docs/latest/commands/cluster-nodes/):
// "<id> <ip:port@cport[,hostname[,…]]> <flags> <master> <ping> <pong> <epoch> <link> <slot> …".
type nodeLine struct {
	id        string
	addrs     []string // the one with the IP address, and then the one with the host name, if any
	flags     []string
	connected bool
	slots     []string
}

// parseNodes reads a reply to CLUSTER NODES. asked is the address that has answered. Invalid lines
// are left out.
func parseNodes(nodes, asked string) (all []nodeLine) {
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		all = append(all, nodeLine{
			id: fields[0], addrs: addrsIn(fields[1], asked), flags: strings.Split(fields[2], ","),
			connected: fields[7] == "connected", slots: fields[8:],
		})
	}
	return all
}

// addrsIn returns the addresses in the second field of a line.
func addrsIn(field, asked string) []string {
	endpoint, names, _ := strings.Cut(field, ",")
	endpoint, _, _ = strings.Cut(endpoint, "@")
	addrs := []string{completeAddr(endpoint, asked)}
	host, _, _ := strings.Cut(names, ",")
	if _, port, err := net.SplitHostPort(endpoint); err == nil && host != "" && !strings.Contains(host, "=") {
		addrs = append(addrs, net.JoinHostPort(host, port))
	}
	return addrs
}

// addTo adds what the line says. If names is set, the IP address of a node with a host name is left
// out.
func (n nodeLine) addTo(l *Layout, names bool) {
	reached := n.addrs
	if names {
		reached = n.addrs[len(n.addrs)-1:]
	}
	if !n.is("handshake") { // until then, the id is a random one
		l.IDs = append(l.IDs, n.id)
	}
	if !n.is("noaddr") {
		l.Peers = append(l.Peers, reached...)
	}
	if !n.works() {
		return
	}
	l.Healthy = append(l.Healthy, n.addrs...)
	switch {
	case n.is("slave"): // CLUSTER SLOTS leaves out replicas that have not received a write
		l.Replicas++
	case n.is("master") && !slices.ContainsFunc(n.slots, isOwned):
		l.Slotless = append(l.Slotless, reached[0])
	}
}

func (n nodeLine) is(flag string) bool { return slices.Contains(n.flags, flag) }

// works reports whether the node is connected, and neither fails nor is unknown to the cluster yet.
func (n nodeLine) works() bool {
	return n.connected && !n.is("fail") && !n.is("fail?") && !n.is("handshake") && !n.is("noaddr")
}

// isOwned reports whether a field names slots of the node. "[93-<-id]" and "[93->-id]" are slots
// that are migrating. A node lists them only for itself.
func isOwned(field string) bool { return field[0] != '[' }

func ownLine(nodes string) (own nodeLine, ok bool) {
	for _, n := range parseNodes(nodes, "") {
		if n.is("myself") {
			return n, true
		}
	}
	return nodeLine{}, false
}

// Confirms reports whether n owns just the slots that s says, and none is migrating. nodes is the
// reply of n to CLUSTER NODES. The error is for a reply without a line about n.
func (s *Snapshot) Confirms(n *links.Node, nodes string) (bool, error) {
	own, ok := ownLine(nodes)
	if !ok {
		return false, fmt.Errorf("%s: CLUSTER NODES does not list the node itself", n.Addr)
	}
	var owned [slots.Count]bool
	for _, field := range own.slots {
		from, to, isRange := strings.Cut(field, "-")
		first, ok := slots.Parse(from)
		last := first
		if ok && isRange {
			last, ok = slots.Parse(to)
		}
		if !ok { // it is migrating
			return false, nil
		}
		for slot := first; slot <= last; slot++ {
			owned[slot] = true
		}
	}
	for slot := range slots.Slot(slots.Count) {
		if owned[slot] != (s.Node(slot) == n) {
			return false, nil
		}
	}
	return true, nil
}
