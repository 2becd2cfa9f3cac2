package topology

import (
	"net"
	"strconv"

	"leash/proxy/slots"
)

// parseSlots reads the reply to CLUSTER SLOTS
// (https://redis.io/docs/latest/commands/cluster-slots/), decoded by resp.Decode. asked is the
// address that has answered. Invalid entries are left out.
func parseSlots(reply []any, asked string) (all []Range) {
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
		r := Range{First: first, Last: last}
		for i, node := range fields[2:] {
			addr, ok := slotNode(node, asked)
			if !ok && i == 0 {
				break // an entry without its master is useless
			}
			if ok {
				r.Addrs = append(r.Addrs, addr)
			}
		}
		if len(r.Addrs) > 0 {
			all = append(all, r)
		}
	}
	return all
}

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
		if ip := pairsOf(fields[3])["ip"]; ip != "" {
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

func pairsOf(reply any) map[string]string {
	items, _ := reply.([]any)
	m := make(map[string]string, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		name, _ := items[i].(string)
		m[name], _ = items[i+1].(string)
	}
	return m
}
