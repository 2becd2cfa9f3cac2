// Package subscribers is the commands about channels: those that subscribe, those that publish, and
// PUBSUB. Package pubsub has the subscriptions themselves.
//
// A node of a cluster counts only its own subscribers, so PUBSUB asks all nodes. It counts the
// clients of all Leashes instead of the Leashes' own subscriptions.
package subscribers

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Run answers a subcommand of PUBSUB. The number of arguments is right. It returns false when the
// session ends.
type Run func(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool

// Commands are the subcommands of PUBSUB, by upper-case name.
func Commands() map[string]Run {
	return map[string]Run{
		"CHANNELS":      activeChannels(pubsub.Channel),
		"SHARDCHANNELS": activeChannels(pubsub.Shard),
		"NUMSUB":        subscriberCounts(pubsub.Channel),
		"SHARDNUMSUB":   subscriberCounts(pubsub.Shard),
		"NUMPAT":        patternCount,
	}
}

// activeChannels answers PUBSUB CHANNELS and SHARDCHANNELS
// (https://redis.io/docs/latest/commands/pubsub-channels/).
func activeChannels(kind pubsub.Kind) Run {
	return func(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool {
		if !r.AdoptTopology() || !r.Admit(len(cmd.Raw)) {
			return false
		}
		q := newChannelQuery(r.Context(), x, kind, cmd)
		for _, n := range r.Topology().Masters() {
			if !r.AwaitRoom(n) {
				return false
			}
			q.add(n, cmd)
		}
		if len(q.parts) == 0 {
			return r.Fail(call.ErrorUnserved)
		}
		return r.FanOut(q.parts, q.to, len(cmd.Raw), q.merge)
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
	parts    []*call.Part
	to       []*links.Node
	own      map[*links.Node]map[string]bool // channels of Leashes themselves
	counted  map[int][]string                // by part: the names whose counts it asks for
	// how many more subscribers than Leashes these names have
	foreign map[string]int
}

func newChannelQuery(ctx context.Context, x *pubsub.Exchange, kind pubsub.Kind, cmd resp.Command) *channelQuery {
	q := &channelQuery{
		exchange: x, kind: kind, pattern: "*", active: x.Active(kind),
		own: make(map[*links.Node]map[string]bool), counted: make(map[int][]string), foreign: make(map[string]int),
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

func (q *channelQuery) add(n *links.Node, cmd resp.Command) {
	own := q.exchange.Held(n, q.kind)
	for name := range q.others {
		own[name] = true
	}
	maps.DeleteFunc(own, func(name string, _ bool) bool { return q.active[name] })
	q.own[n] = own
	q.ask(n, bytes.Clone(cmd.Raw))
	if len(own) > 0 {
		names := slices.Collect(maps.Keys(own))
		q.counted[len(q.parts)] = names
		q.ask(n, countsRequest(q.kind, names))
	}
}

func (q *channelQuery) ask(n *links.Node, request []byte) {
	q.parts, q.to = append(q.parts, call.FixedPart(request)), append(q.to, n)
}

func (q *channelQuery) merge(replies []*merge.Reply) (merge.Reply, bool) {
	found := make(map[string]bool)
	for name := range q.active {
		if pubsub.Match(q.pattern, name) {
			found[name] = true
		}
	}
	for i, r := range replies {
		if !q.collect(found, i, r.Bytes()) {
			return merge.Reply{}, false
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
	return merge.Of(b), true
}

// collect adds the reply of part i. It returns false for an invalid reply.
func (q *channelQuery) collect(found map[string]bool, i int, reply []byte) bool {
	if names, is := q.counted[i]; is {
		counts, ok := countsReply(reply, len(names))
		for j, n := range counts {
			q.foreign[names[j]] += int(n) - q.exchange.Subscribers(q.parts[i].Node(), q.kind, names[j])
		}
		return ok
	}
	names, ok := resp.Elements(reply)
	for _, e := range names {
		if name, _ := resp.Text(e); !q.own[q.parts[i].Node()][string(name)] {
			found[string(name)] = true
		}
	}
	return ok
}

// countsReply reads the numbers in a list of names and numbers. names is how many names there are.
func countsReply(reply []byte, names int) (counts []int64, ok bool) {
	all, ok := resp.Elements(reply)
	if !ok || len(all) != 2*names {
		return nil, false
	}
	for i := range names {
		n, ok := resp.Int(all[2*i+1])
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

func subscriberCounts(kind pubsub.Kind) Run {
	return func(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool {
		names := make([]string, len(cmd.Args)-2)
		for i, arg := range cmd.Args[2:] {
			names[i] = string(arg)
		}
		others := x.Others(r.Context(), kind, names, "")
		return r.ToEvery(cmd, func(parts []*call.Part) merge.Func {
			return mergeCounts(x, parts, kind, names, others)
		})
	}
}

func mergeCounts(x *pubsub.Exchange, parts []*call.Part, kind pubsub.Kind, names []string,
	others pubsub.Others) merge.Func {
	return func(replies []*merge.Reply) (merge.Reply, bool) {
		counts := make([]int64, len(names))
		for i, r := range replies {
			reported, ok := countsReply(r.Bytes(), len(names))
			if !ok {
				return merge.Reply{}, false
			}
			for j, name := range names {
				counts[j] += reported[j] - int64(x.Subscribers(parts[i].Node(), kind, name))
			}
		}
		b := resp.AppendArray(nil, 2*len(names))
		for i, name := range names {
			b = resp.AppendBulk(b, name)
			past := max(counts[i]-int64(others.Held(name)), 0) // subscribers without a Leash
			b = resp.AppendInt(b, past+int64(x.Clients(kind, name)+others.Clients(name)))
		}
		return merge.Of(b), true
	}
}

// patternCount answers PUBSUB NUMPAT, the number of different patterns. A node reports only a
// number and not the patterns. Leash knows only the patterns of Leashes. So it counts a pattern on
// several nodes once only if a Leash has subscribed to it.
func patternCount(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool {
	reported := x.Others(r.Context(), pubsub.Pattern, nil, "*")
	count := func(parts []*call.Part, replies []*merge.Reply) (merge.Reply, bool) {
		ours := x.Active(pubsub.Pattern)
		for pattern := range reported {
			if reported.Clients(pattern) > 0 {
				ours[pattern] = true
			}
		}
		var others int64
		for i, one := range replies {
			n, ok := resp.Int(one.Bytes())
			if !ok {
				return merge.Reply{}, false
			}
			held := x.Held(parts[i].Node(), pubsub.Pattern)
			maps.Copy(held, reported.HeldAt(x, parts[i].Node()))
			maps.Copy(ours, held)
			others += max(n-int64(len(held)), 0)
		}
		return merge.Of(resp.AppendInt(nil, others+int64(len(ours)))), true
	}
	return r.ToEvery(cmd, func(parts []*call.Part) merge.Func {
		return func(replies []*merge.Reply) (merge.Reply, bool) { return count(parts, replies) }
	})
}
