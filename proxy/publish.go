package proxy

import (
	"bytes"
	"maps"
	"slices"

	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// publishTreatments are the commands that publish and that tell who listens.
// In what Redis counts, Leash's own subscriptions are replaced by its clients.
func publishTreatments() treatments {
	return treatments{
		"PUBLISH": {(*session).publishPlain, anyNode, "counts the subscribers of Leash and of that node"}, "SPUBLISH": {(*session).publishSharded, relayed, ""},

		"PUBSUB|CHANNELS": {activeChannels(pubsub.Channel), everyNode, ""}, "PUBSUB|SHARDCHANNELS": {activeChannels(pubsub.Shard), everyNode, ""},
		"PUBSUB|NUMSUB": {subscriberCounts(pubsub.Channel), everyNode, ""}, "PUBSUB|SHARDNUMSUB": {subscriberCounts(pubsub.Shard), everyNode, ""},
		"PUBSUB|NUMPAT": {(*session).patternCount, everyNode, ""},
	}
}

func (s *session) publishPlain(c *command, cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !s.server.exchange.Heeds(pubsub.Channel, cmd.Args[1]) {
		return s.relayAny(c, cmd)
	}
	return s.publishTo(cmd, pubsub.Channel, anySlot)
}

func (s *session) publishSharded(c *command, cmd resp.Command) bool {
	if len(cmd.Args) != 3 || !s.server.exchange.Heeds(pubsub.Shard, cmd.Args[1]) {
		return s.relay(c, cmd)
	}
	return s.publishTo(cmd, pubsub.Shard, int(upstream.Slot(cmd.Args[1])))
}

// publishTo sends the command on the ordinary path and corrects the count that
// answers it.
func (s *session) publishTo(cmd resp.Command, kind pubsub.Kind, slot int) bool {
	if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
		return false
	}
	var node *upstream.Node
	switch {
	case slot != anySlot:
		node = s.topology.Node(uint16(slot))
	case s.keyless >= 0:
		node = s.topology.Masters()[s.keyless]
	default:
		return s.fail(msgSlotUnserved)
	}
	if !s.awaitRoom(node) {
		return false
	}
	channel := string(cmd.Args[1])
	p := &part{slot: slot}
	p.Request = bytes.Clone(cmd.Raw)
	return s.fan([]*part{p}, []*upstream.Node{node}, 0, len(cmd.Raw), func(f *fanout) []byte {
		n, ok := integer(f.parts[0].reply)
		if !ok {
			return nil
		}
		ours, clients := s.server.exchange.Receivers(f.parts[0].node, kind, channel)
		return resp.AppendInt(nil, max(n-int64(ours), 0)+int64(clients))
	})
}

// activeChannels answers PUBSUB CHANNELS and SHARDCHANNELS
// (https://redis.io/docs/latest/commands/pubsub-channels/). A channel to which
// Leash itself listens, and none of its clients, counts only if Redis has more
// subscribers of it than Leash.
func activeChannels(kind pubsub.Kind) handler {
	return func(s *session, c *command, cmd resp.Command) bool {
		if !c.arityOK(cmd.Args) {
			return s.wrongArity(c)
		}
		if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
			return false
		}
		x := s.server.exchange
		active := x.Active(kind)
		var parts []*part
		var to []*upstream.Node
		asked := make(map[*part][]string) // names of which the counts are asked
		unsure := make(map[*upstream.Node]map[string]bool)
		ask := func(n *upstream.Node, request []byte) *part {
			p := &part{slot: anySlot, fixed: true}
			p.Request = request
			parts, to = append(parts, p), append(to, n)
			return p
		}
		for _, n := range s.topology.Masters() {
			ask(n, bytes.Clone(cmd.Raw))
			own := x.Held(n, kind)
			maps.DeleteFunc(own, func(name string, _ bool) bool { return active[name] })
			if unsure[n] = own; len(own) > 0 {
				names := slices.Collect(maps.Keys(own))
				asked[ask(n, countsRequest(kind, names))] = names
			}
		}
		if len(parts) == 0 {
			return s.fail(msgSlotUnserved)
		}
		for _, n := range to {
			if !s.awaitRoom(n) {
				return false
			}
		}
		pattern := "*"
		if len(cmd.Args) == 3 {
			pattern = string(cmd.Args[2])
		}
		return s.fan(parts, to, 0, len(cmd.Raw), func(f *fanout) []byte {
			found := make(map[string]bool)
			for name := range active {
				if pubsub.Match(pattern, name) {
					found[name] = true
				}
			}
			for _, p := range f.parts {
				if names, isCount := asked[p]; isCount {
					if !s.server.addShared(found, p, kind, names, pattern) {
						return nil
					}
				} else if !addNames(found, p.reply, unsure[p.node]) {
					return nil
				}
			}
			b := resp.AppendArray(nil, len(found))
			for _, name := range slices.Sorted(maps.Keys(found)) {
				b = resp.AppendBulk(b, name)
			}
			return b
		})
	}
}

// addNames adds the names in a reply that are not among those that may be
// Leash's own alone.
func addNames(found map[string]bool, reply []byte, unsure map[string]bool) bool {
	parts, ok := elements(reply)
	for _, e := range parts {
		if name := string(bulkText(e)); !unsure[name] {
			found[name] = true
		}
	}
	return ok
}

// addShared adds those of Leash's own names that have other subscribers too.
func (s *Server) addShared(found map[string]bool, p *part, kind pubsub.Kind, names []string, pattern string) bool {
	parts, ok := elements(p.reply)
	if !ok || len(parts) != 2*len(names) {
		return false
	}
	for i, name := range names {
		n, ok := integer(parts[2*i+1])
		if !ok {
			return false
		}
		if int(n) > s.exchange.Subscribers(p.node, kind, name) && pubsub.Match(pattern, name) {
			found[name] = true
		}
	}
	return true
}

// bulkText is the content of a bulk reply.
func bulkText(reply []byte) []byte {
	_, rest, ok := bytes.Cut(reply, []byte("\n"))
	if !ok || len(rest) < 2 {
		return nil
	}
	return rest[:len(rest)-2]
}

// countsRequest asks for the numbers of subscribers.
func countsRequest(kind pubsub.Kind, names []string) []byte {
	word := "NUMSUB"
	if kind == pubsub.Shard {
		word = "SHARDNUMSUB"
	}
	return resp.AppendCommand(nil, append([]string{"PUBSUB", word}, names...)...)
}

// subscriberCounts answers PUBSUB NUMSUB and SHARDNUMSUB.
func subscriberCounts(kind pubsub.Kind) handler {
	return func(s *session, c *command, cmd resp.Command) bool {
		if !c.arityOK(cmd.Args) {
			return s.wrongArity(c)
		}
		names := make([]string, len(cmd.Args)-2)
		for i, arg := range cmd.Args[2:] {
			names[i] = string(arg)
		}
		return s.everywhere(cmd, func(f *fanout) []byte { return s.server.mergeCounts(f, kind, names) })
	}
}

func (s *Server) mergeCounts(f *fanout, kind pubsub.Kind, names []string) []byte {
	counts := make([]int64, len(names))
	for _, p := range f.parts {
		parts, ok := elements(p.reply)
		if !ok || len(parts) != 2*len(names) {
			return nil
		}
		for i, name := range names {
			n, ok := integer(parts[2*i+1])
			if !ok {
				return nil
			}
			counts[i] += max(n-int64(s.exchange.Subscribers(p.node, kind, name)), 0)
		}
	}
	b := resp.AppendArray(nil, 2*len(names))
	for i, name := range names {
		b = resp.AppendBulk(b, name)
		b = resp.AppendInt(b, counts[i]+int64(s.exchange.Clients(kind, name)))
	}
	return b
}

// patternCount answers PUBSUB NUMPAT, the number of different patterns. A node
// does not tell which they are: one that is known at two nodes is counted once
// only if it is one of Leash.
func (s *session) patternCount(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	x := s.server.exchange
	return s.everywhere(cmd, func(f *fanout) []byte {
		ours := make(map[string]bool)
		var others int64
		for _, p := range f.parts {
			n, ok := integer(p.reply)
			if !ok {
				return nil
			}
			held := x.Held(p.node, pubsub.Pattern)
			maps.Copy(ours, held)
			others += max(n-int64(len(held)), 0)
		}
		return resp.AppendInt(nil, others+int64(len(ours)))
	})
}
