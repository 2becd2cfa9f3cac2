package upstream

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// healthyLines are the lines of CLUSTER NODES about working nodes.
func healthyLines(nodes string) string {
	var well strings.Builder
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) >= 8 && fields[7] == "connected" && !slices.ContainsFunc(strings.Split(fields[2], ","),
			isFailing) {
			well.WriteString(line)
		}
	}
	return well.String()
}

// countReplicas returns the number of working replicas in CLUSTER NODES. CLUSTER SLOTS leaves out
// replicas that have not received a write.
func countReplicas(nodes string) (n int) {
	for line := range strings.Lines(healthyLines(nodes)) {
		if slices.Contains(strings.Split(strings.Fields(line)[2], ","), "slave") {
			n++
		}
	}
	return n
}

// slotless returns the addresses of working masters without slots in the reply to CLUSTER NODES.
// Such a master may have keys of a slot that it is about to get.
func slotless(nodes, asked string, named bool) (addrs []string) {
	for line := range strings.Lines(healthyLines(nodes)) {
		fields := strings.Fields(line)
		if slices.ContainsFunc(fields[8:], ownsSlots) || !slices.Contains(strings.Split(fields[2], ","), "master") {
			continue
		}
		both := addrsIn(fields[1], asked)
		if named {
			both = both[len(both)-1:]
		}
		addrs = append(addrs, both[0])
	}
	return addrs
}

// isFailing reports whether a flag means that a node fails or that the cluster does not know it
// yet.
func isFailing(flag string) bool {
	return flag == "fail" || flag == "fail?" || flag == "handshake" || flag == "noaddr"
}

// ownsSlots reports whether a field after the eighth of CLUSTER NODES names slots of the node. A
// slot in brackets is being moved.
func ownsSlots(field string) bool { return field[0] != '[' }

// haveNames reports whether a cluster's nodes are reached by host names. With TLS, certificates
// then usually have no IP addresses.
func haveNames(owners []slotOwners) bool {
	for _, s := range owners {
		if host, _, err := net.SplitHostPort(s.addrs[0]); err == nil && net.ParseIP(host) == nil {
			return true
		}
	}
	return false
}

// parseNodes returns the addresses in the reply to CLUSTER NODES. A line has the form "<id>
// <ip:port@cport[,hostname[,…]]> <flags> …". If named is set, the IP address of a node with a host
// name is left out.
func parseNodes(nodes, asked string, named bool) (addrs []string) {
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 3 || slices.Contains(strings.Split(fields[2], ","), "noaddr") {
			continue
		}
		both := addrsIn(fields[1], asked)
		if named {
			both = both[len(both)-1:]
		}
		addrs = append(addrs, both...)
	}
	return addrs
}

// addrsIn returns the addresses in the second field of a line of CLUSTER NODES: the one with the IP
// address, and then the one with the host name if there is one.
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

// completeAddr fills in the host that Redis leaves out ("?" or empty) for the node that was asked.
func completeAddr(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if i := strings.LastIndexByte(addr, ':'); err != nil && i > 0 {
		return net.JoinHostPort(addr[:i], addr[i+1:]) // Redis puts no brackets around IPv6
	}
	if err != nil || host != "" && host != "?" {
		return addr
	}
	host, _, _ = net.SplitHostPort(asked)
	return net.JoinHostPort(host, port)
}

// isAddr reports whether addr is a host and a port that can be dialled.
func isAddr(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && host != "" && len(host) <= 255
}
