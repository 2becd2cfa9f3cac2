// Package subscribers is the commands about channels: those that subscribe, those that publish, and
// PUBSUB. Package pubsub has the subscriptions themselves.
//
// A node of a cluster counts only its own subscribers, so PUBSUB asks all nodes. It counts the
// clients of all Leashes instead of the Leashes' own subscriptions.
package subscribers

import (
	"maps"
	"slices"

	"leash/proxy/call"
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
// (https://redis.io/docs/latest/commands/pubsub-channels/). It leaves out the channels to which
// Leashes subscribe only for themselves.
func activeChannels(kind pubsub.Kind) Run {
	return func(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool {
		pattern := "*"
		if len(cmd.Args) == 3 {
			pattern = string(cmd.Args[2])
		}
		others := x.Others(r.Context(), kind, nil, pattern)
		return r.ToEvery(cmd, func(parts []*call.Part) merge.Func {
			return mergeChannels(x, parts, kind, pattern, others)
		})
	}
}

func mergeChannels(x *pubsub.Exchange, parts []*call.Part, kind pubsub.Kind, pattern string,
	others pubsub.Others) merge.Func {
	return func(replies []*merge.Reply) (merge.Reply, bool) {
		found, own := x.Active(kind), make(map[string]bool)
		maps.DeleteFunc(found, func(name string, _ bool) bool { return !pubsub.Match(pattern, name) })
		for name := range others {
			own[name] = true
			if others.Clients(name) > 0 {
				found[name] = true
			}
		}
		for _, p := range parts {
			maps.Copy(own, x.Held(p.Node(), kind))
		}
		for _, r := range replies {
			names, ok := resp.Elements(r.Bytes())
			if !ok {
				return merge.Reply{}, false
			}
			for _, e := range names {
				if name, _ := resp.Text(e); !own[string(name)] {
					found[string(name)] = true
				}
			}
		}
		b := resp.AppendArray(nil, len(found))
		for _, name := range slices.Sorted(maps.Keys(found)) {
			b = resp.AppendBulk(b, name)
		}
		return merge.Of(b), true
	}
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
