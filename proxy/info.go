package proxy

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"leash/internal/guard"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/info"
	"leash/proxy/resp"
)

func showInfo(s *session, c *command.Command, cmd resp.Command) bool {
	return info.Run(&s.router, infoOf{s.server, s.conn}, c, cmd)
}

// infoOf is what INFO tells a client about this Leash.
type infoOf struct {
	*Server
	conn *client.Conn
}

// Own implements info.Leash. The fields describe clients and the address.
func (s infoOf) Own() map[string]string {
	a := s.announcedAddr(s.conn)
	return map[string]string{
		"tcp_port":                   strconv.Itoa(a.Port),
		"connected_clients":          strconv.Itoa(s.sessionCount()),
		"maxclients":                 strconv.Itoa(s.Settings().MaxClients),
		"blocked_clients":            strconv.Itoa(s.count((*session).isBlocked)),
		"total_connections_received": strconv.FormatInt(s.stats.accepted.Load(), 10),
		"rejected_connections":       strconv.FormatInt(s.stats.refused.Load(), 10),
		"connected_slaves":           "0", // clients cannot reach replicas through Leash
	}
}

// Fields gives every field of INFO leash to line, in order. A value is a string or an integer.
func (s *Server) Fields(line func(name string, value any)) {
	line("version", s.cfg.Version)
	line("uptime_in_seconds", int(s.uptime().Seconds()))
	line("upstream_mode", s.up.Mode())
	line("upstream_masters", len(s.up.Topology().Masters()))
	line("upstream_logins_refused", s.up.Dialer.LoginsRefused())
	line("goroutines", runtime.NumGoroutine())
	line("sessions", s.sessionCount())
	line("pinned_connections", s.up.Nodes.Pinned())
	for i, n := range s.up.PinnedPerNode() {
		line(fmt.Sprintf("pinned_node%d", i), fmt.Sprintf("addr=%s,used=%d,limit=%d,refused=%d", n.Addr, n.Used,
			n.Limit, n.Refused))
	}
	line("max_clients", s.Settings().MaxClients)
	line("memory", memoryUsed())
	line("max_memory", s.memory.most)
	line("memory_refusals", s.memory.refused.Load())
	line("total_connections", s.stats.accepted.Load())
	line("rejected_connections", s.stats.refused.Load())
	line("input_bytes", s.stats.inBytes.Load())
	line("protocol_errors", s.stats.protocolErrors.Load())
	line("proxy_header_errors", s.entries.BadHeaders.Load())
	line("tls_handshake_errors", s.entries.BadHandshakes.Load())
	line("output_limit_disconnections", s.stats.outputLimit.Load())
	line("subscriber_limit_disconnections", s.stats.subscriberLimit.Load())
	line("panics", guard.Panics())
	s.certificateLines(line)
	locks := s.locks.Stats()
	line("holds", locks.Holds)
	line("renewals", locks.Renewals)
	line("renewal_lag_ms", locks.RenewalLag.Milliseconds())
	line("waiters", locks.Waiters)
	line("waiters_refused", locks.Limited)
	line("holds_refused", locks.NameLimited)
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

// certificateLines gives line what INFO tells about certificates: how often changed files could not
// be used, and the days until the first certificate ends. Without a certificate, the days are -1.
func (s *Server) certificateLines(line func(name string, value any)) {
	failures, days := int64(0), -1
	for _, c := range s.cfg.Certificates {
		failures += c.Failures()
		if end := c.Expiry(); !end.IsZero() {
			left := max(0, int(time.Until(end).Hours()/24))
			if days < 0 || left < days {
				days = left
			}
		}
	}
	line("tls_certificate_errors", failures)
	line("tls_certificate_days", days)
}
