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
		counts := x.Count(r.Context, kind, nil, pattern)
		return r.Everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
			found := counts.Active()
			for _, r := range replies {
				names, ok := resp.Elements(r.Bytes())
				if !ok {
					return merge.Reply{}, false
				}
				for _, e := range names {
					if name, _ := resp.Text(e); counts[string(name)] == nil {
						found[string(name)] = true
					}
				}
			}
			b := resp.AppendArray(nil, len(found))
			for _, name := range slices.Sorted(maps.Keys(found)) {
				b = resp.AppendBulk(b, name)
			}
			return merge.Of(b), true
		})
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
		counts := x.Count(r.Context, kind, names, "")
		return r.Everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
			at := make([]int64, len(names))
			for _, r := range replies {
				reported, ok := countsReply(r.Bytes(), len(names))
				if !ok {
					return merge.Reply{}, false
				}
				for i, n := range reported {
					at[i] += n
				}
			}
			b := resp.AppendArray(nil, 2*len(names))
			for i, name := range names {
				clients, held := counts.Of(name)
				past := max(at[i]-int64(held), 0) // subscribers without a Leash
				b = resp.AppendInt(resp.AppendBulk(b, name), past+int64(clients))
			}
			return merge.Of(b), true
		})
	}
}

// patternCount answers PUBSUB NUMPAT, the number of different patterns. A node reports only a
// number and not the patterns. Leash knows only the patterns of Leashes. So it counts a pattern on
// several nodes once only if a Leash has subscribed to it.
func patternCount(r *route.Router, x *pubsub.Exchange, cmd resp.Command) bool {
	counts := x.Count(r.Context, pubsub.Pattern, nil, "*")
	return r.ToEvery(cmd, func(parts []*call.Part) merge.Func {
		return func(replies []*merge.Reply) (merge.Reply, bool) {
			ours := counts.Active()
			var past int64 // patterns of subscribers without a Leash
			for i, one := range replies {
				n, ok := resp.Int(one.Bytes())
				if !ok {
					return merge.Reply{}, false
				}
				held := counts.HeldAt(x, parts[i].Node())
				maps.Copy(ours, held)
				past += max(n-int64(len(held)), 0)
			}
			return merge.Of(resp.AppendInt(nil, past+int64(len(ours)))), true
		}
	})
}
