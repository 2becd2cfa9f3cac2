package proxy

import (
	"fmt"

	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Redis's own messages about clusters.
const (
	msgNoCluster   = "ERR This instance has cluster support disabled"
	msgInvalidSlot = "ERR Invalid slot"
	msgInvalidKeys = "ERR Invalid slot or number of keys"
	msgUnknownNode = "ERR Unknown node %s"
)

// clusterHandlers show Leash as one node that owns every slot. So cluster clients work unchanged
// and send everything here. In front of a single Redis, they answer with the error of a Redis that
// is not in a cluster.
func clusterHandlers() handlers {
	all := handlers{
		"CLUSTER|INFO":     onCluster((*session).clusterInfo),
		"CLUSTER|KEYSLOT":  onCluster((*session).clusterKeySlot),
		"CLUSTER|LINKS":    onCluster((*session).emptyArray),
		"CLUSTER|MYID":     onCluster((*session).clusterMyID),
		"CLUSTER|NODES":    onCluster((*session).clusterNodes),
		"CLUSTER|REPLICAS": onCluster((*session).clusterReplicas),
		"CLUSTER|SHARDS":   onCluster((*session).clusterShards),
		"CLUSTER|SLAVES":   onCluster((*session).clusterReplicas),
		"CLUSTER|SLOTS":    onCluster((*session).clusterSlots),

		"CLUSTER|COUNT-FAILURE-REPORTS": onCluster((*session).clusterFailures),
		"CLUSTER|COUNTKEYSINSLOT":       onCluster((*session).clusterCountKeys),
		"CLUSTER|GETKEYSINSLOT":         onCluster((*session).clusterGetKeys),

		"READONLY":  onCluster((*session).okay),
		"READWRITE": onCluster((*session).okay),
		"ASKING":    onCluster((*session).okay),
	}
	for _, name := range []string{
		"ADDSLOTS", "ADDSLOTSRANGE", "BUMPEPOCH", "DELSLOTS", "DELSLOTSRANGE", "FAILOVER", "FLUSHSLOTS", "FORGET",
		"MEET",
		"REPLICATE", "RESET", "SAVECONFIG", "SET-CONFIG-EPOCH", "SETSLOT",
	} {
		all["CLUSTER|"+name] = onCluster((*session).refuse)
	}
	return all
}

// onCluster makes a handler that runs only in front of a cluster. Redis's own checks come first.
func onCluster(run handler) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		switch {
		case !s.ready(c, cmd):
			return true
		case !s.server.up.Topology().Cluster():
			return s.fail(msgNoCluster)
		}
		return run(s, c, cmd)
	}
}

func (s *session) okay(*command.Command, resp.Command) bool { return s.ok() }

func (s *session) emptyArray(*command.Command, resp.Command) bool {
	return s.answer([]byte(resp.EmptyArray))
}

func (s *session) clusterMyID(*command.Command, resp.Command) bool {
	s.scratch = resp.AppendBulk(s.scratch[:0], s.announcedAddr().id())
	return s.answer(s.scratch)
}

// clusterSlots answers CLUSTER SLOTS
// (https://redis.io/docs/latest/commands/cluster-slots/).
func (s *session) clusterSlots(*command.Command, resp.Command) bool {
	a := s.announcedAddr()
	b := append(s.scratch[:0], "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n"...)
	b = resp.AppendBulk(b, a.host)
	b = resp.AppendInt(b, int64(a.port))
	b = resp.AppendBulk(b, a.id())
	s.scratch = resp.AppendPairs(b, s.router.Lane.RESP3, 0)
	return s.answer(s.scratch)
}

// clusterShards answers CLUSTER SHARDS
// (https://redis.io/docs/latest/commands/cluster-shards/).
func (s *session) clusterShards(*command.Command, resp.Command) bool {
	a, fields := s.announcedAddr(), 7
	if a.isName() {
		fields++
	}
	b := resp.AppendPairs(append(s.scratch[:0], "*1\r\n"...), s.router.Lane.RESP3, 2)
	b = append(resp.AppendBulk(b, "slots"), "*2\r\n:0\r\n:16383\r\n"...)
	b = append(resp.AppendBulk(b, "nodes"), "*1\r\n"...)
	b = resp.AppendPairs(b, s.router.Lane.RESP3, fields)
	b = resp.AppendBulk(resp.AppendBulk(b, "id"), a.id())
	b = resp.AppendInt(resp.AppendBulk(b, "port"), int64(a.port))
	b = resp.AppendBulk(resp.AppendBulk(b, "ip"), a.host)
	b = resp.AppendBulk(resp.AppendBulk(b, "endpoint"), a.host)
	if a.isName() {
		b = resp.AppendBulk(resp.AppendBulk(b, "hostname"), a.host)
	}
	b = resp.AppendBulk(resp.AppendBulk(b, "role"), "master")
	b = resp.AppendInt(resp.AppendBulk(b, "replication-offset"), 0)
	b = resp.AppendBulk(resp.AppendBulk(b, "health"), "online")
	s.scratch = b
	return s.answer(b)
}

// clusterNodes answers CLUSTER NODES. It shows a host name in the field of the IP address, because
// most clients read only that field.
func (s *session) clusterNodes(*command.Command, resp.Command) bool {
	a := s.announcedAddr()
	return s.text(fmt.Sprintf("%s %s@%d myself,master - 0 0 1 connected 0-16383\n", a.id(), a.addr(), a.bus()))
}

func (s *session) clusterInfo(*command.Command, resp.Command) bool {
	assigned, state := 0, "ok"
	t := s.server.up.Topology()
	for slot := range upstream.SlotCount {
		if t.Owner(uint16(slot)) >= 0 {
			assigned++
		}
	}
	if assigned == 0 {
		state = "fail"
	}
	return s.text(fmt.Sprintf("cluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"+
		"cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n"+
		"cluster_current_epoch:1\r\ncluster_my_epoch:1\r\ncluster_stats_messages_sent:0\r\n"+
		"cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n", state, assigned,
		assigned))
}

func (s *session) clusterKeySlot(_ *command.Command, cmd resp.Command) bool {
	s.scratch = resp.AppendInt(s.scratch[:0], int64(upstream.Slot(cmd.Args[2])))
	return s.answer(s.scratch)
}

// clusterReplicas answers CLUSTER REPLICAS with an empty list.
func (s *session) clusterReplicas(c *command.Command, cmd resp.Command) bool {
	if string(cmd.Args[2]) != s.announcedAddr().id() {
		return s.fail(fmt.Sprintf(msgUnknownNode, quoted(cmd.Args[2], maxQuoted)))
	}
	return s.emptyArray(c, cmd)
}

func (s *session) clusterFailures(_ *command.Command, cmd resp.Command) bool {
	if string(cmd.Args[2]) != s.announcedAddr().id() {
		return s.fail(fmt.Sprintf(msgUnknownNode, quoted(cmd.Args[2], maxQuoted)))
	}
	s.scratch = resp.AppendInt(s.scratch[:0], 0)
	return s.answer(s.scratch)
}

// clusterCountKeys asks every master, not only the slot's owner. During a slot migration, two nodes
// have keys of the slot.
func (s *session) clusterCountKeys(_ *command.Command, cmd resp.Command) bool {
	slot, ok := resp.ParseInt(cmd.Args[2])
	switch {
	case !ok:
		return s.fail(command.NotInteger)
	case slot < 0 || slot >= upstream.SlotCount:
		return s.fail(msgInvalidSlot)
	}
	return s.router.Everywhere(cmd, merge.Sum)
}

// clusterGetKeys asks as clusterCountKeys does.
func (s *session) clusterGetKeys(_ *command.Command, cmd resp.Command) bool {
	slot, ok := resp.ParseInt(cmd.Args[2])
	limit, ok2 := resp.ParseInt(cmd.Args[3])
	switch {
	case !ok || !ok2:
		return s.fail(command.NotInteger)
	case slot < 0 || slot >= upstream.SlotCount || limit < 0:
		return s.fail(msgInvalidKeys)
	}
	return s.router.Everywhere(cmd, merge.AtMost(limit))
}
