// Package cluster shows Leash as one node that owns every slot. So cluster clients work unchanged
// and send everything here.
package cluster

import (
	"fmt"

	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
)

// Redis's own messages about clusters.
const (
	msgInvalidSlot = "ERR Invalid slot"
	msgInvalidKeys = "ERR Invalid slot or number of keys"
	msgUnknownNode = "ERR Unknown node %s"
)

// View is the cluster as one client sees it.
type View struct {
	Addr   Addr
	Router *route.Router
}

// Run answers a command for a client. It returns false when the session ends.
type Run func(v View, cmd resp.Command) bool

// Commands are the subcommands of CLUSTER that Leash answers, by upper-case name. It refuses the
// others.
func Commands() map[string]Run {
	return map[string]Run{
		"INFO":     info,
		"KEYSLOT":  keySlot,
		"LINKS":    func(v View, _ resp.Command) bool { return v.Router.Answer([]byte(resp.EmptyArray)) },
		"MYID":     func(v View, _ resp.Command) bool { return v.Router.Answer(resp.AppendBulk(nil, v.Addr.ID())) },
		"NODES":    nodes,
		"REPLICAS": replicas,
		"SHARDS":   shards,
		"SLAVES":   replicas,
		"SLOTS":    slotOwners,

		"COUNT-FAILURE-REPORTS": failures,
		"COUNTKEYSINSLOT":       countKeys,
		"GETKEYSINSLOT":         getKeys,
	}
}

// slotOwners answers CLUSTER SLOTS
// (https://redis.io/docs/latest/commands/cluster-slots/).
func slotOwners(v View, _ resp.Command) bool {
	a := v.Addr
	b := append([]byte(nil), "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n"...)
	b = resp.AppendBulk(b, a.Host)
	b = resp.AppendInt(b, int64(a.Port))
	b = resp.AppendBulk(b, a.ID())
	return v.Router.Answer(resp.AppendPairs(b, v.Router.Lane.RESP3, 0))
}

// shards answers CLUSTER SHARDS
// (https://redis.io/docs/latest/commands/cluster-shards/).
func shards(v View, _ resp.Command) bool {
	a, fields := v.Addr, 7
	if a.isName() {
		fields++
	}
	b := resp.AppendPairs(append([]byte(nil), "*1\r\n"...), v.Router.Lane.RESP3, 2)
	b = append(resp.AppendBulk(b, "slots"), "*2\r\n:0\r\n:16383\r\n"...)
	b = append(resp.AppendBulk(b, "nodes"), "*1\r\n"...)
	b = resp.AppendPairs(b, v.Router.Lane.RESP3, fields)
	b = resp.AppendBulk(resp.AppendBulk(b, "id"), a.ID())
	b = resp.AppendInt(resp.AppendBulk(b, "port"), int64(a.Port))
	b = resp.AppendBulk(resp.AppendBulk(b, "ip"), a.Host)
	b = resp.AppendBulk(resp.AppendBulk(b, "endpoint"), a.Host)
	if a.isName() {
		b = resp.AppendBulk(resp.AppendBulk(b, "hostname"), a.Host)
	}
	b = resp.AppendBulk(resp.AppendBulk(b, "role"), "master")
	b = resp.AppendInt(resp.AppendBulk(b, "replication-offset"), 0)
	b = resp.AppendBulk(resp.AppendBulk(b, "health"), "online")
	return v.Router.Answer(b)
}

// nodes answers CLUSTER NODES. It shows a host name in the field of the IP address, because most
// clients read only that field.
func nodes(v View, _ resp.Command) bool {
	a := v.Addr
	return v.answerText(fmt.Sprintf("%s %s@%d myself,master - 0 0 1 connected 0-16383\n", a.ID(), a.addr(), a.bus()))
}

func (v View) answerText(text string) bool {
	return v.Router.Answer(resp.AppendText(nil, v.Router.Lane.RESP3, text))
}

func info(v View, _ resp.Command) bool {
	assigned, state := 0, "ok"
	t := v.Router.Up.Topology() // of the real cluster
	for slot := range slots.Slot(slots.Count) {
		if t.Owner(slot) >= 0 {
			assigned++
		}
	}
	if assigned == 0 {
		state = "fail"
	}
	return v.answerText(fmt.Sprintf("cluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"+
		"cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n"+
		"cluster_current_epoch:1\r\ncluster_my_epoch:1\r\ncluster_stats_messages_sent:0\r\n"+
		"cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n", state, assigned,
		assigned))
}

func keySlot(v View, cmd resp.Command) bool {
	return v.Router.Answer(resp.AppendInt(nil, int64(slots.Of(cmd.Args[2]))))
}

func replicas(v View, cmd resp.Command) bool {
	if string(cmd.Args[2]) != v.Addr.ID() {
		return v.Router.Fail(fmt.Sprintf(msgUnknownNode, command.Quoted(cmd.Args[2], len(cmd.Args[2]))))
	}
	return v.Router.Answer([]byte(resp.EmptyArray))
}

func failures(v View, cmd resp.Command) bool {
	if string(cmd.Args[2]) != v.Addr.ID() {
		return v.Router.Fail(fmt.Sprintf(msgUnknownNode, command.Quoted(cmd.Args[2], len(cmd.Args[2]))))
	}
	return v.Router.Answer(resp.AppendInt(nil, 0))
}

// countKeys asks every master, not only the slot's owner. During a slot migration, two nodes
// have keys of the slot.
func countKeys(v View, cmd resp.Command) bool {
	n, ok := resp.ParseInt(cmd.Args[2])
	_, exists := slots.From(n)
	switch {
	case !ok:
		return v.Router.Fail(command.NotInteger)
	case !exists:
		return v.Router.Fail(msgInvalidSlot)
	}
	return v.Router.Everywhere(cmd, merge.Sum)
}

// getKeys asks as countKeys does.
func getKeys(v View, cmd resp.Command) bool {
	n, ok := resp.ParseInt(cmd.Args[2])
	_, exists := slots.From(n)
	limit, ok2 := resp.ParseInt(cmd.Args[3])
	switch {
	case !ok || !ok2:
		return v.Router.Fail(command.NotInteger)
	case !exists || limit < 0:
		return v.Router.Fail(msgInvalidKeys)
	}
	return v.Router.Everywhere(cmd, merge.AtMost(limit))
}
