package upstream

import (
	"net"
	"strconv"

	"leash/proxy/slots"
)

// slotOwners is one entry of CLUSTER SLOTS: a range of slots, the address of its master, and those
// of its replicas.
type slotOwners struct {
	first, last slots.Slot
	addrs       []string
}

// parseSlotsReply reads the reply to CLUSTER SLOTS
// (https://redis.io/docs/latest/commands/cluster-slots/) as go-redis decodes it. It does not use
// go-redis's own type, which cannot read a host that is null. asked is the address that has
// answered. Invalid entries are left out.
func parseSlotsReply(reply []any, asked string) (all []slotOwners) {
	for _, entry := range reply {
		fields, _ := entry.([]any)
		if len(fields) < 3 {
			continue
		}
		first, ok1 := slotIn(fields[0])
		last, ok2 := slotIn(fields[1])
		if !ok1 || !ok2 || first > last {
			continue
		}
		o := slotOwners{first: first, last: last}
		for i, node := range fields[2:] {
			addr, ok := slotNode(node, asked)
			if !ok && i == 0 {
				break // an entry without its master is useless
			}
			if ok {
				o.addrs = append(o.addrs, addr)
			}
		}
		if len(o.addrs) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// slotIn reads the number of a slot.
func slotIn(field any) (s slots.Slot, ok bool) {
	n, ok := field.(int64)
	if !ok {
		return 0, false
	}
	return slots.From(n)
}

// slotNode returns the address in a node's entry, which has its endpoint, port, id, and more. An
// endpoint of null or "" means the host that was asked. "?" means that the node lacks the host name
// that it should have. Then its address is in the additional fields.
func slotNode(entry any, asked string) (addr string, ok bool) {
	fields, _ := entry.([]any)
	if len(fields) < 2 {
		return "", false
	}
	host, _ := fields[0].(string)
	port, ok := fields[1].(int64)
	if !ok || port <= 0 || port > 65535 {
		return "", false
	}
	if host == "?" && len(fields) > 3 {
		more, _ := fields[3].([]any)
		if ip := pairsOf(more)["ip"]; ip != "" {
			host = ip
		}
	}
	if host == "" || host == "?" {
		if host, _, _ = net.SplitHostPort(asked); host == "" {
			return "", false
		}
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), true
}
