package proxy

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// pubsubSpecs are the commands about subscribers. A node of a cluster counts only its own
// subscribers, so Leash asks all nodes. It counts the clients of all Leashes instead of the
// Leashes' own subscriptions.
func pubsubSpecs() commandSpecs {
	return commandSpecs{
		"PUBSUB|CHANNELS": {activeChannels(pubsub.Channel), everyNode, ""}, "PUBSUB|SHARDCHANNELS": {activeChannels(pubsub.Shard), everyNode, ""},
		"PUBSUB|NUMSUB": {subscriberCounts(pubsub.Channel), everyNode, ""}, "PUBSUB|SHARDNUMSUB": {subscriberCounts(pubsub.Shard), everyNode, ""},
		"PUBSUB|NUMPAT": {(*session).patternCount, everyNode, ""},
	}
}

// activeChannels answers PUBSUB CHANNELS and SHARDCHANNELS
// (https://redis.io/docs/latest/commands/pubsub-channels/).
func activeChannels(kind pubsub.Kind) handler {
	return func(s *session, c *command, cmd resp.Command) bool {
		if !c.arityOK(cmd.Args) {
			return s.wrongArity(c)
		}
		if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
			return false
		}
		q := newChannelQuery(s.ctx, s.server.exchange, kind, cmd)
		for _, n := range s.topology.Masters() {
			if !s.awaitRoom(n) {
				return false
			}
			q.add(n, cmd)
		}
		if len(q.parts) == 0 {
			return s.fail(msgSlotUnserved)
		}
		return s.fanOut(q.parts, q.to, 0, len(cmd.Raw), q.merge)
	}
}

// channelQuery is one search for channels with subscribers. Leashes subscribe to some channels only
// for themselves. Such a channel has other subscribers only if Redis counts more subscribers than
// Leashes. So Leash asks for the counts of these channels by name.
type channelQuery struct {
	exchange *pubsub.Exchange
	kind     pubsub.Kind
	pattern  string
	active   map[string]bool // channels that clients are subscribed to
	others   pubsub.Others   // reports of other Leashes
	parts    []*part
	to       []*upstream.Node
	own      map[*upstream.Node]map[string]bool // channels of Leashes themselves
	counted  map[*part][]string                 // the names whose counts a part asks for
	// how many more subscribers than Leashes these names have
	foreign map[string]int
}

func newChannelQuery(ctx context.Context, x *pubsub.Exchange, kind pubsub.Kind, cmd resp.Command) *channelQuery {
	q := &channelQuery{
		exchange: x, kind: kind, pattern: "*", active: x.Active(kind),
		own: make(map[*upstream.Node]map[string]bool), counted: make(map[*part][]string), foreign: make(map[string]int),
	}
	if len(cmd.Args) == 3 {
		q.pattern = string(cmd.Args[2])
	}
	q.others = x.Others(ctx, kind, nil, q.pattern)
	for name := range q.others {
		if q.others.Clients(name) > 0 {
			q.active[name] = true
		}
	}
	return q
}

// add makes the parts that ask a node.
func (q *channelQuery) add(n *upstream.Node, cmd resp.Command) {
	own := q.exchange.Held(n, q.kind)
	for name := range q.others {
		own[name] = true
	}
	maps.DeleteFunc(own, func(name string, _ bool) bool { return q.active[name] })
	q.own[n] = own
	q.ask(n, bytes.Clone(cmd.Raw))
	if len(own) > 0 {
		names := slices.Collect(maps.Keys(own))
		q.counted[q.ask(n, countsRequest(q.kind, names))] = names
	}
}

func (q *channelQuery) ask(n *upstream.Node, request []byte) *part {
	p := &part{slot: anySlot, fixed: true}
	p.Request = request
	q.parts, q.to = append(q.parts, p), append(q.to, n)
	return p
}

// merge makes one reply of the parts' replies.
func (q *channelQuery) merge(f *fanout) []byte {
	found := make(map[string]bool)
	for name := range q.active {
		if pubsub.Match(q.pattern, name) {
			found[name] = true
		}
	}
	for _, p := range f.parts {
		if !q.collect(found, p) {
			return nil
		}
	}
	for name, n := range q.foreign {
		if n > q.others.Held(name) && pubsub.Match(q.pattern, name) {
			found[name] = true
		}
	}
	b := resp.AppendArray(nil, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		b = resp.AppendBulk(b, name)
	}
	return b
}

// collect adds the reply of a part. It returns false for an invalid reply.
func (q *channelQuery) collect(found map[string]bool, p *part) bool {
	if names, is := q.counted[p]; is {
		counts, ok := countsReply(p.whole(), len(names))
		for i, n := range counts {
			q.foreign[names[i]] += int(n) - q.exchange.Subscribers(p.node, q.kind, names[i])
		}
		return ok
	}
	names, ok := elements(p.whole())
	for _, e := range names {
		if name := string(bulkText(e)); !q.own[p.node][name] {
			found[name] = true
		}
	}
	return ok
}

// bulkText returns the content of a bulk reply.
func bulkText(reply []byte) []byte {
	_, rest, ok := bytes.Cut(reply, []byte("\n"))
	if !ok || len(rest) < 2 {
		return nil
	}
	return rest[:len(rest)-2]
}

// countsReply reads the numbers in a list of names and numbers. names is how many names there are.
func countsReply(reply []byte, names int) (counts []int64, ok bool) {
	all, ok := elements(reply)
	if !ok || len(all) != 2*names {
		return nil, false
	}
	for i := range names {
		n, ok := integer(all[2*i+1])
		if !ok {
			return nil, false
		}
		counts = append(counts, n)
	}
	return counts, true
}

// countsRequest returns the command that asks for the numbers of subscribers.
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
		others := s.server.exchange.Others(s.ctx, kind, names, "")
		return s.everywhere(cmd, func(f *fanout) []byte { return s.server.mergeCounts(f, kind, names, others) })
	}
}

func (s *Server) mergeCounts(f *fanout, kind pubsub.Kind, names []string, others pubsub.Others) []byte {
	counts := make([]int64, len(names))
	for _, p := range f.parts {
		reported, ok := countsReply(p.whole(), len(names))
		if !ok {
			return nil
		}
		for i, name := range names {
			counts[i] += reported[i] - int64(s.exchange.Subscribers(p.node, kind, name))
		}
	}
	b := resp.AppendArray(nil, 2*len(names))
	for i, name := range names {
		b = resp.AppendBulk(b, name)
		past := max(counts[i]-int64(others.Held(name)), 0) // subscribers without a Leash
		b = resp.AppendInt(b, past+int64(s.exchange.Clients(kind, name)+others.Clients(name)))
	}
	return b
}

// patternCount answers PUBSUB NUMPAT, the number of different patterns. A node reports only a
// number and not the patterns. Leash knows only the patterns of Leashes. So it counts a pattern on
// several nodes once only if a Leash has subscribed to it.
func (s *session) patternCount(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	x := s.server.exchange
	reported := x.Others(s.ctx, pubsub.Pattern, nil, "*")
	return s.everywhere(cmd, func(f *fanout) []byte {
		ours := x.Active(pubsub.Pattern)
		for pattern := range reported {
			if reported.Clients(pattern) > 0 {
				ours[pattern] = true
			}
		}
		var others int64
		for _, p := range f.parts {
			n, ok := integer(p.whole())
			if !ok {
				return nil
			}
			held := x.Held(p.node, pubsub.Pattern)
			maps.Copy(held, reported.HeldAt(x, p.node))
			maps.Copy(ours, held)
			others += max(n-int64(len(held)), 0)
		}
		return resp.AppendInt(nil, others+int64(len(ours)))
	})
}
