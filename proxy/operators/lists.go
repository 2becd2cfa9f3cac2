package operators

import (
	"cmp"
	"slices"

	"leash/lockcmd/view"
	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
)

// Limits of a list. A longer one would need much memory at once.
const (
	defaultListed = 100
	maxListed     = 10000
)

const msgListed = "ERR LIMIT count is out of range, it should be between 0 and 10000"

// listOptions are the options of a list: [MATCH pattern] [LIMIT offset count].
type listOptions struct {
	pattern      string // empty: all
	first, count int
}

func parseListOptions(args [][]byte) (o listOptions, problem string) {
	o.count = defaultListed
	for len(args) > 0 {
		switch {
		case resp.IsWord(args[0], "MATCH") && len(args) > 1:
			o.pattern, args = string(args[1]), args[2:]
		case resp.IsWord(args[0], "LIMIT") && len(args) > 2:
			first, ok := resp.ParseInt(args[1])
			count, ok2 := resp.ParseInt(args[2])
			switch {
			case !ok || !ok2 || first < 0:
				return o, command.NotInteger
			case count < 0 || count > maxListed:
				return o, msgListed
			}
			o.first, o.count, args = int(first), int(count), args[3:]
		default:
			return o, command.SyntaxError
		}
	}
	return o, ""
}

func (o listOptions) matches(texts ...string) bool {
	return o.pattern == "" || o.pattern == "*" ||
		slices.ContainsFunc(texts, func(text string) bool { return pubsub.Match(o.pattern, text) })
}

// list is what a command found: how many in all, and the records of those to show.
type list struct {
	found   int
	name    string // of the records
	records int
	bytes   []byte
}

// listing makes a handler of a command that lists something. One list is made at a time, because it
// visits all clients or holds; the others wait.
func listing(find func(Caller, listOptions) list) Run {
	return func(by Caller, _ *command.Command, cmd resp.Command) bool {
		o, problem := parseListOptions(cmd.Args[2:])
		if problem != "" {
			return by.Router.Fail(problem)
		}
		l := func() list {
			by.listing.Lock()
			defer by.listing.Unlock()
			return find(by, o)
		}()
		b := resp.AppendBulk(resp.AppendPairs(nil, by.Router.Lane.RESP3, 2), "found")
		b = resp.AppendBulk(resp.AppendInt(b, int64(l.found)), l.name)
		return by.Router.Answer(append(resp.AppendArray(b, l.records), l.bytes...))
	}
}

// sessions answers LEASH SESSIONS. The pattern is for the address, the name and the user.
func sessions(by Caller, o listOptions) list {
	found, shown := by.Server.FindClients(func(v *clients.Description) bool {
		return o.matches(v.Addr, v.Name, v.User)
	}, o.first, o.count)
	l := list{found: found, name: "sessions", records: len(shown)}
	for _, v := range shown {
		l.bytes = record(l.bytes, by.Router.Lane.RESP3, "id", v.ID, "addr", v.Addr, "name", v.Name, "user", v.User,
			"library", v.Library(), "command", v.Command, "flags", v.Flags(), "db", v.DB, "age-ms", v.Age,
			"idle-ms", min(v.Idle, v.Age), "holds", v.Holds, "input-bytes", v.Requests, "output-bytes", v.Output)
	}
	return l
}

// holds answers LEASH HOLDS. The pattern is for the key.
func holds(by Caller, o listOptions) list {
	search := view.Search{By: view.ByGrant, First: o.first, Count: o.count}
	if o.pattern != "" {
		search.Match = func(key string) bool { return o.matches(key) }
	}
	found := by.Locks.SearchHolds(search)
	l := list{found: found.Found, name: "holds", records: len(found.Holds)}
	for _, v := range found.Holds {
		l.bytes = record(l.bytes, by.Router.Lane.RESP3, "key", v.Key, "db", v.DB, "mode", v.Mode, "owner", v.Owner,
			"token", v.Token, "holds", v.Count, "age-ms", v.Age, "ttl-ms", max(v.Left, 0), "leased", v.Lease,
			"client", v.Client, "client-id", v.ClientID, "waiters", v.Waiters)
	}
	return l
}

// waiters answers LEASH WAITERS. The pattern is for the key.
func waiters(by Caller, o listOptions) list {
	all := by.Server.Waiters()
	all = slices.DeleteFunc(all, func(w Waiter) bool { return !o.matches(w.Key) })
	slices.SortStableFunc(all, func(a, b Waiter) int { return cmp.Compare(b.Waited, a.Waited) })
	first := min(o.first, len(all))
	shown := all[first:min(first+o.count, len(all))]
	l := list{found: len(all), name: "waiters", records: len(shown)}
	for _, w := range shown {
		l.bytes = record(l.bytes, by.Router.Lane.RESP3, "key", w.Key, "db", w.DB, "mode", w.Mode, "owner", w.Owner,
			"waited-ms", w.Waited, "client", w.Client, "client-id", w.ClientID)
	}
	return l
}
