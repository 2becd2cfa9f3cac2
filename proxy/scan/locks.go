package scan

import (
	"context"
	"strconv"
	"strings"

	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// lockListing is a LOCK.LIST in progress. It is a SCAN that keeps only the keys of locks held
// through a Leash, and returns the names of these locks. As in Redis, it needs only the right to
// SCAN.
type lockListing struct {
	cursor  []byte
	match   string
	matches bool
	count   int64
	partial bool // leave out masters that cannot be asked, and name them
}

// parseLockList parses the arguments as Redis parses those of SCAN.
func parseLockList(args [][]byte) (l lockListing, problem string) {
	if len(args) < 2 {
		return l, "ERR wrong number of arguments for 'lock.list' command"
	}
	l = lockListing{cursor: args[1], count: 10}
	if _, err := strconv.ParseUint(string(l.cursor), 10, 64); err != nil {
		return l, "ERR invalid cursor"
	}
	seen := [2]bool{}
	for rest := args[2:]; len(rest) > 0; {
		word := rest[0]
		if rest = rest[1:]; resp.IsWord(word, "PARTIAL") && !l.partial {
			l.partial = true
			continue
		}
		if len(rest) == 0 {
			return l, command.SyntaxError
		}
		value := rest[0]
		rest = rest[1:]
		switch {
		case resp.IsWord(word, "MATCH") && !seen[0]:
			seen[0], l.matches, l.match = true, string(value) != "*", string(value)
		case resp.IsWord(word, "COUNT") && !seen[1]:
			seen[1] = true
			n, ok := resp.ParseInt(value)
			if !ok {
				return l, command.NotInteger
			}
			if l.count = n; n < 1 {
				return l, command.SyntaxError
			}
		default:
			return l, command.SyntaxError
		}
	}
	return l, ""
}

// Finder finds the locks among keys of hashes.
type Finder interface {
	// Locks returns the names of the locks whose keys are among these keys of a database. It blocks
	// until Redis has answered.
	Locks(ctx context.Context, db int, keys []string) (names []string, err error)
}

// Locks answers LOCK.LIST. Every earlier call of the session has its reply. It returns false when
// the session ends.
func (s *Scans) Locks(r *route.Router, finder Finder, args [][]byte) bool {
	l, problem := parseLockList(args)
	if problem != "" {
		return r.Fail(problem)
	}
	if !r.AdoptTopology() {
		return false
	}
	if !r.Topology().Cluster() {
		local, _ := strconv.ParseUint(string(l.cursor), 10, 64)
		next, names, failure := s.listNode(r, r.Topology().Masters()[0], finder, l, local)
		if failure == nil {
			return r.Answer(l.reply(next, names, nil))
		}
		return r.Answer(failure)
	}
	at, ok := parseCursor(l.cursor)
	if !ok {
		return r.Fail("ERR invalid cursor")
	}
	return s.from(r, at, func(o *order, stop int, from cursor) bool {
		n := o.stops[stop].node
		local, names, failure := s.listNode(r, n, finder, l, from.local) // 0 after a failure: the next node
		if failure != nil && !l.partial {
			return r.Answer(failure)
		}
		next, err := o.cursor(stop, from.pass, local).number()
		if err != nil {
			return r.Fail(err.Error())
		}
		return r.Answer(l.reply(next, names, missing(n.Addr, failure)))
	}, end{l.reply(0, nil, nil), l.partial})
}

// missing is a master that could not be asked, and the error. It is nil without one.
func missing(addr string, failure []byte) []byte {
	if failure == nil {
		return nil
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(failure), "-"))
	return resp.AppendBulk(resp.AppendBulk(nil, addr), text)
}

// reply makes the reply. names is an array, or nil for none. missing is an address and an error.
func (l lockListing) reply(next uint64, names, missing []byte) []byte {
	if names == nil {
		names = resp.AppendArray(nil, 0)
	}
	if !l.partial {
		return reply(next, names)
	}
	b := resp.AppendBulk(resp.AppendArray(nil, 3), strconv.FormatUint(next, 10))
	b = append(b, names...)
	if missing == nil {
		return resp.AppendArray(b, 0)
	}
	return append(resp.AppendArray(b, 2), missing...)
}

// listNode runs one SCAN on a node. names is an array of the locks among the keys. If it fails,
// failure is the error for the client. Otherwise failure is nil.
func (s *Scans) listNode(r *route.Router, n *links.Node, finder Finder, l lockListing, local uint64) (next uint64,
	names, failure []byte) {
	got, err := n.Link(r.Lane).Ask(r.Context, resp.AppendCommand(nil, "SCAN", strconv.FormatUint(local, 10), "COUNT",
		strconv.FormatInt(l.count, 10), "TYPE", "hash"))
	if err != nil {
		return 0, nil, s.failure(r, err)
	}
	next, list, ok := ParseReply(got)
	if !ok {
		return 0, nil, got // an error
	}
	all, _ := resp.Elements(list)
	keys := make([]string, len(all))
	for i, key := range all {
		name, _ := resp.Text(key)
		keys[i] = string(name)
	}
	locks, err := finder.Locks(r.Context, r.Lane.DB, keys)
	if err != nil {
		return 0, nil, s.failure(r, err)
	}
	found := 0
	for _, name := range locks {
		if !l.matches || pubsub.Match(l.match, name) {
			names = resp.AppendBulk(names, name)
			found++
		}
	}
	return next, append(resp.AppendArray(nil, found), names...), nil
}

func (s *Scans) failure(r *route.Router, err error) []byte {
	r.Log.Warn("cannot list locks", "session", r.ID, "err", err)
	return resp.AppendError(nil, merge.NotSent)
}
