package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// serverTreatments are the commands about the server.
func serverTreatments() treatments {
	return treatments{
		"COMMAND": {(*session).relayAny, anyNode, ""}, "COMMAND|COUNT": {(*session).relayAny, anyNode, ""},
		"COMMAND|DOCS": {(*session).relayAny, anyNode, ""}, "COMMAND|INFO": {(*session).relayAny, anyNode, ""},
		"COMMAND|LIST": {(*session).relayAny, anyNode, ""}, "COMMAND|GETKEYS": {(*session).relayAny, anyNode, ""},
		"COMMAND|GETKEYSANDFLAGS": {(*session).relayAny, anyNode, ""},

		"TIME": {(*session).relayAny, anyNode, ""}, "CONFIG|GET": {(*session).relayAny, anyNode, ""},
		"INFO":    {(*session).info, anyNode, "with a section of Leash's own"},
		"PFDEBUG": {(*session).refuse, refused, "for Redis's own tests"},
	}
}

// info answers INFO: the section "leash" from here, everything else from a
// node, with that section behind it where a server adds those of modules.
func (s *session) info(c *command, cmd resp.Command) bool {
	own, others := infoSections(cmd.Args[1:])
	if !own {
		return s.relayAny(c, cmd)
	}
	if !s.ready(c, cmd) {
		return true
	}
	if !others {
		s.scratch = resp.AppendBulk(s.scratch[:0], s.server.infoSection())
		return s.answer(s.scratch)
	}
	if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
		return false
	}
	if s.keyless < 0 {
		return s.fail(msgSlotUnserved)
	}
	p := &part{slot: anySlot}
	p.Request = bytes.Clone(cmd.Raw)
	to := []*upstream.Node{s.topology.Masters()[s.keyless]}
	return s.fan([]*part{p}, to, 0, len(cmd.Raw), s.server.mergeInfo)
}

// infoSections tells whether the section "leash" is asked for and whether
// anything else is.
func infoSections(sections [][]byte) (own, others bool) {
	if len(sections) == 0 {
		return true, true
	}
	for _, name := range sections {
		switch strings.ToLower(string(name)) {
		case "leash":
			own = true
		case "all", "everything", "default":
			own, others = true, true
		default:
			others = true
		}
	}
	return own, others
}

// mergeInfo puts the section "leash" behind a node's INFO.
func (s *Server) mergeInfo(f *fanout) []byte {
	reply := f.parts[0].reply
	i := bytes.IndexByte(reply, '\n')
	if i < 0 || reply[0] != '$' && reply[0] != '=' || len(reply) < i+3 {
		return nil
	}
	text := append(bytes.Clone(reply[i+1:len(reply)-2]), '\r', '\n')
	whole := resp.AppendBulk(nil, append(text, s.infoSection()...))
	whole[0] = reply[0] // a verbatim string in RESP3
	return whole
}

// infoSection is what INFO says of Leash itself, in INFO's own form.
func (s *Server) infoSection() []byte {
	var b bytes.Buffer
	b.WriteString("# Leash\r\n")
	line := func(name string, value any) { fmt.Fprintf(&b, "leash_%s:%v\r\n", name, value) }
	line("version", s.cfg.Version)
	line("uptime_in_seconds", strconv.Itoa(int(s.uptime().Seconds())))
	line("upstream_mode", s.up.Mode())
	line("upstream_masters", len(s.up.Topology().Masters()))
	line("sessions", s.sessionCount())
	line("pinned_connections", s.up.Pinned())
	line("max_clients", s.cfg.MaxClients)
	s.stats.lines(line)
	locks := s.locks.Stats()
	line("holds", locks.Holds)
	line("waiters", locks.Waiters)
	subscriptions := s.exchange.Stats()
	line("subscribers", subscriptions.Listeners)
	line("upstream_subscriptions", subscriptions.Subscriptions)
	line("subscriber_connections", subscriptions.Connections)
	return b.Bytes()
}
