package proxy

import (
	"strconv"

	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// lockListing is a LOCK.LIST in progress. It is a SCAN that keeps only the keys of locks held
// through a Leash, and returns the names of these locks. As in Redis, it needs only the right to
// SCAN.
type lockListing struct {
	cursor  []byte
	match   string
	matches bool
	count   int64
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
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			return l, command.SyntaxError
		}
		value := args[i+1]
		switch {
		case resp.IsWord(args[i], "MATCH") && !seen[0]:
			seen[0], l.matches, l.match = true, string(value) != "*", string(value)
		case resp.IsWord(args[i], "COUNT") && !seen[1]:
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

// lockList answers LOCK.LIST. Every earlier call of the session has its reply.
func (s *session) lockList(args [][]byte) bool {
	l, problem := parseLockList(args)
	if problem != "" {
		return s.fail(problem)
	}
	if !s.router.AdoptTopology() {
		return false
	}
	if !s.router.Topology().Cluster() {
		cursor, _ := strconv.ParseUint(string(l.cursor), 10, 64)
		next, keys, reply := s.listNode(s.router.Topology().Masters()[0], l, cursor)
		if reply == nil {
			reply = scanReply(next, keys)
		}
		return s.answer(reply)
	}
	cursor, ok := parseScanCursor(l.cursor)
	if !ok {
		return s.fail("ERR invalid cursor")
	}
	return s.scanFrom(cursor, func(order *scanOrder, stop int, from scanCursor) bool {
		local, keys, reply := s.listNode(order.stops[stop].node, l, from.local)
		if reply != nil {
			return s.answer(reply)
		}
		next, err := order.cursor(stop, from.pass, local).number()
		if err != nil {
			return s.fail(err.Error())
		}
		return s.answer(scanReply(next, keys))
	})
}

// listNode runs one SCAN on a node. names is an array of the locks among the keys. If it fails,
// reply is the error for the client. Otherwise reply is nil.
func (s *session) listNode(n *upstream.Node, l lockListing, local uint64) (next uint64, names, reply []byte) {
	request := resp.AppendCommand(nil, "SCAN", strconv.FormatUint(local, 10), "COUNT",
		strconv.FormatInt(l.count, 10), "TYPE", "hash")
	reply, err := n.Link(s.router.Lane).Ask(s.ctx, request)
	if err != nil {
		s.server.log.Warn("cannot list locks", "session", s.id, "err", err)
		return 0, nil, resp.AppendError(nil, merge.NotSent)
	}
	next, list, ok := parseScanReply(reply)
	if !ok {
		return 0, nil, reply // an error
	}
	all, _ := resp.Elements(list)
	keys := make([]string, len(all))
	for i, key := range all {
		name, _ := resp.Text(key)
		keys[i] = string(name)
	}
	locks, err := s.server.locks.Locks(s.ctx, s.router.Lane.DB, keys)
	if err != nil {
		s.server.log.Warn("cannot list locks", "session", s.id, "err", err)
		return 0, nil, resp.AppendError(nil, merge.NotSent)
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
