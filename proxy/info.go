package proxy

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"leash/proxy/call"
	"leash/proxy/cluster"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// info answers INFO (https://redis.io/docs/latest/commands/info/) as one Redis would that has all
// keys. The reply is one node's text with these changes:
//
//   - Values that can be added up are sums over all masters.
//   - Fields about clients are Leash's own.
//   - A section "Leash" follows, where Redis puts the sections of modules.
//   - A field is left out if a master that it needs does not answer.
func (s *session) info(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Ready(c, cmd):
		return true
	case len(cmd.Args) == 2 && resp.IsWord(cmd.Args[1], "LEASH"):
		return s.answer(resp.AppendText(nil, s.router.Lane.RESP3, string(s.server.infoSection())))
	case !s.router.AdoptTopology() || !s.calls.Admit(len(cmd.Raw)):
		return false
	case s.router.Keyless() == nil:
		return s.fail(call.ErrorUnserved)
	}
	report := merge.Info{Own: s.server.ownInfo(s.announcedAddr()), RESP3: s.router.Lane.RESP3}
	if wantsLeash(cmd.Args[1:]) {
		report.Section = s.server.infoSection()
	}
	masters, exact := s.router.Topology().Masters(), onlyKeyspace(cmd.Args[1:])
	usual := slices.Index(masters, s.router.Keyless())
	var parts []*call.Part
	var to []*upstream.Node
	for i := range masters { // the usual node first: its text decides the sections
		n := masters[(usual+i)%len(masters)]
		if n.Unresponsive() && !exact && len(masters) > 1 {
			report.Missing++
			continue
		}
		p := call.SparePart(bytes.Clone(cmd.Raw))
		if exact {
			p = call.FixedPart(bytes.Clone(cmd.Raw))
		}
		parts, to = append(parts, p), append(to, n)
	}
	if len(parts) == 0 {
		return s.fail(merge.NotSent)
	}
	return s.router.FanOut(parts, to, len(cmd.Raw), report.Merge)
}

// onlyKeyspace reports whether the sections ask only for the number of keys.
func onlyKeyspace(sections [][]byte) bool {
	return len(sections) == 1 && resp.IsWord(sections[0], "KEYSPACE")
}

// wantsLeash reports whether the sections include "leash".
func wantsLeash(sections [][]byte) bool {
	return len(sections) == 0 || slices.ContainsFunc(sections, func(name []byte) bool {
		return slices.Contains([]string{"leash", "all", "everything", "default"}, strings.ToLower(string(name)))
	})
}

// ownInfo returns the fields of Redis's INFO for which Leash has values of its own. They describe
// clients and the address.
func (s *Server) ownInfo(a cluster.Addr) map[string]string {
	return map[string]string{
		"tcp_port":                   strconv.Itoa(a.Port),
		"connected_clients":          strconv.Itoa(s.sessionCount()),
		"maxclients":                 strconv.Itoa(s.Settings().MaxClients),
		"blocked_clients":            strconv.Itoa(s.blockedCount()),
		"total_connections_received": strconv.FormatInt(s.stats.accepted.Load(), 10),
		"rejected_connections":       strconv.FormatInt(s.stats.refused.Load(), 10),
		"connected_slaves":           "0", // clients cannot reach replicas through Leash
	}
}

// infoSection returns the section about Leash, in the format of INFO.
func (s *Server) infoSection() []byte {
	var b bytes.Buffer
	b.WriteString("# Leash\r\n")
	s.infoFields(func(name string, value any) { fmt.Fprintf(&b, "leash_%s:%v\r\n", name, value) })
	return b.Bytes()
}

// infoFields gives every field of the section to line, in order. A value is a string or an integer.
func (s *Server) infoFields(line func(name string, value any)) {
	line("version", s.cfg.Version)
	line("uptime_in_seconds", int(s.uptime().Seconds()))
	line("upstream_mode", s.up.Mode())
	line("upstream_masters", len(s.up.Topology().Masters()))
	line("upstream_logins_refused", s.up.LoginsRefused())
	line("goroutines", runtime.NumGoroutine())
	line("sessions", s.sessionCount())
	line("pinned_connections", s.up.Pinned())
	for i, n := range s.up.PinnedPerNode() {
		line(fmt.Sprintf("pinned_node%d", i), fmt.Sprintf("addr=%s,used=%d,limit=%d,refused=%d", n.Addr, n.Used,
			n.Limit, n.Refused))
	}
	line("max_clients", s.Settings().MaxClients)
	s.stats.lines(line)
	s.certificateLines(line)
	locks := s.locks.Stats()
	line("holds", locks.Holds)
	line("renewals", locks.Renewals)
	line("renewal_lag_ms", locks.RenewalLag.Milliseconds())
	line("waiters", locks.Waiters)
	line("waiters_refused", locks.Limited)
	for _, reason := range slices.Sorted(maps.Keys(locks.Losses)) {
		line("locks_lost_"+reason, locks.Losses[reason])
	}
	line("masters_in_grace", locks.GraceMasters)
	line("grace_ms", locks.GraceLeft.Milliseconds())
	line("holds_restored", locks.Restored)
	subscriptions := s.exchange.Stats()
	line("subscribers", subscriptions.Listeners)
	line("upstream_subscriptions", subscriptions.Subscriptions)
	line("subscriber_connections", subscriptions.Connections)
}
