package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// everywhere sends a command to every master and merges the replies.
func (s *session) everywhere(cmd resp.Command, m merge) bool {
	if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
		return false
	}
	masters := s.topology.Masters()
	if len(masters) == 0 {
		return s.fail(msgSlotUnserved)
	}
	parts := make([]*part, len(masters))
	for i, n := range masters {
		if !s.awaitRoom(n) {
			return false
		}
		parts[i] = &part{slot: anySlot, fixed: true}
		parts[i].Request = bytes.Clone(cmd.Raw)
	}
	return s.fan(parts, masters, 0, len(cmd.Raw), m)
}

func (s *session) dbSize(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	return s.everywhere(cmd, mergeSum)
}

// scriptLoad loads a script on every master, so that EVALSHA finds it whatever
// its keys are.
func (s *session) scriptLoad(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	return s.everywhere(cmd, mergeOK)
}

// streamRead relays XREAD and XREADGROUP unless they may block.
func (s *session) streamRead(c *command, cmd resp.Command) bool {
	streams, blocks := parseStreamRead(cmd.Args)
	switch {
	case blocks:
		return s.refuse(c, cmd)
	case streams > 0 && streams < len(cmd.Args):
		return s.relayKeys(cmd, int(upstream.Slot(cmd.Args[streams])), c.many)
	}
	return s.relayAny(c, cmd) // Redis will say what is wrong
}

// parseStreamRead walks the options of XREAD and XREADGROUP as Redis does, for
// a group may be named like an option. It returns where the keys begin, 0 if
// they do not.
func parseStreamRead(args [][]byte) (streams int, blocks bool) {
	for i := 1; i < len(args); i++ {
		switch {
		case isWord(args[i], "STREAMS"):
			return i + 1, blocks
		case isWord(args[i], "BLOCK"):
			blocks = true
			i++
		case isWord(args[i], "COUNT"):
			i++
		case isWord(args[i], "GROUP"):
			i += 2
		}
	}
	return 0, blocks
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
	mode := "standalone"
	if s.up.Topology().Cluster() {
		mode = "cluster"
	}
	line("version", s.cfg.Version)
	line("uptime_in_seconds", strconv.Itoa(int(s.uptime().Seconds())))
	line("upstream_mode", mode)
	line("upstream_masters", len(s.up.Topology().Masters()))
	line("sessions", s.sessionCount())
	line("max_clients", s.cfg.MaxClients)
	s.stats.lines(line)
	locks := s.locks.Stats()
	line("holds", locks.Holds)
	line("waiters", locks.Waiters)
	return b.Bytes()
}
