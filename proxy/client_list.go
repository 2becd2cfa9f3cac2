package proxy

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/tracking"
)

const (
	msgClientType = "ERR Unknown client type '%s'"
	msgClientID   = "ERR Invalid client ID"
)

// clientList answers CLIENT LIST [TYPE type | ID id …]
// (https://redis.io/docs/latest/commands/client-list/).
func (s *session) clientList(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	wanted, problem := parseListFilter(cmd.Args)
	if problem != "" {
		return s.fail(problem)
	}
	if !s.router.Permitted("CLIENT", "LIST", "TYPE", "?") {
		return true
	}
	s.updateDescription()
	var b bytes.Buffer
	for _, one := range s.server.sortedSessions() {
		if d := one.describe(); wanted(d) {
			d.writeTo(&b)
		}
	}
	return s.answer(resp.AppendText(nil, s.router.Lane.RESP3, b.String()))
}

// parseListFilter returns a function that selects the clients to list, or the error.
func parseListFilter(args [][]byte) (wanted func(*description) bool, problem string) {
	switch {
	case len(args) == 2:
		return func(*description) bool { return true }, ""
	case len(args) == 4 && resp.IsWord(args[2], "TYPE"):
		kind, ok := clientType(args[3])
		if !ok {
			return nil, fmt.Sprintf(msgClientType, command.Quoted(args[3], command.MaxQuoted))
		}
		return func(d *description) bool { return d.kind() == kind }, ""
	case len(args) > 3 && resp.IsWord(args[2], "ID"):
		var ids []int64
		for _, arg := range args[3:] {
			id, ok := resp.ParseInt(arg)
			if !ok {
				return nil, msgClientID
			}
			ids = append(ids, id)
		}
		return func(d *description) bool { return slices.Contains(ids, d.id) }, ""
	}
	return nil, command.SyntaxError
}

func (s *session) clientInfo(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	s.updateDescription()
	var b bytes.Buffer
	s.describe().writeTo(&b)
	return s.answer(resp.AppendText(nil, s.router.Lane.RESP3, b.String()))
}

// description is what CLIENT LIST shows of a session.
type description struct {
	id          int64
	addr, laddr string
	fd          int
	labels
	age, idle        time.Duration
	unix, blocked    bool
	monitoring       bool
	tracking         tracking.View
	noEvict          bool
	db, protocol     int
	sub, psub, ssub  int
	multi            int // commands queued in MULTI, -1 outside of it
	requests, output int // bytes of commands in flight, bytes of output that waits
	user             string
	command          string
}

// describe returns the session's description. It may be called from any goroutine.
func (s *session) describe() *description {
	d := &description{
		id: s.id, addr: endpoint(s.conn.RemoteAddr(), s.conn.LocalAddr()), laddr: endpoint(s.conn.LocalAddr(), nil),
		fd:    s.conn.Descriptor(),
		idle:  time.Duration(s.server.clock.Load()-s.activity.seen.Load()) * time.Second,
		multi: int(s.activity.queued.Load()) - 1, user: "default", command: "NULL", protocol: 2,
		blocked:    s.blocked.Load() != nil || s.awaitsLock(),
		monitoring: s.monitoring.Load() != nil,
		tracking:   s.tracking.Load().View(),
	}
	d.unix = s.conn.LocalAddr().Network() == "unix"
	if c := s.activity.command.Load(); c != nil {
		d.command = c.Name
	}
	d.sub, d.psub, d.ssub = s.subscribedTo()
	s.mu.Lock()
	defer s.mu.Unlock()
	d.age, d.noEvict = time.Since(s.activity.since), s.activity.noEvict.Load()
	if s.labels != nil {
		d.labels = *s.labels
	}
	d.requests, d.output = s.calls.SizesLocked()
	d.db = s.router.Lane.DB
	if s.router.Lane.User != "" {
		d.user = s.router.Lane.User
	}
	if s.router.Lane.RESP3 {
		d.protocol = 3
	}
	return d
}

// endpoint formats an address as Redis does. A client of a unix socket has no address of its own,
// so it gets the path of the socket, which is local.
func endpoint(addr, local net.Addr) string {
	if addr.Network() != "unix" {
		return addr.String()
	}
	if local != nil {
		addr = local
	}
	return addr.String() + ":0"
}

// clientKind is a value of the option TYPE of CLIENT LIST and CLIENT KILL.
type clientKind uint8

const (
	normalClient clientKind = iota
	pubsubClient
	replicaClient // no session is one
	masterClient  // no session is one
)

func clientType(arg []byte) (kind clientKind, ok bool) {
	switch {
	case resp.IsWord(arg, "NORMAL"):
		return normalClient, true
	case resp.IsWord(arg, "PUBSUB"):
		return pubsubClient, true
	case resp.IsWord(arg, "REPLICA"), resp.IsWord(arg, "SLAVE"):
		return replicaClient, true
	case resp.IsWord(arg, "MASTER"):
		return masterClient, true
	}
	return 0, false
}

func (d *description) kind() clientKind {
	if d.sub+d.psub+d.ssub > 0 {
		return pubsubClient
	}
	return normalClient
}

// flags returns the letters in the field flags of CLIENT LIST.
func (d *description) flags() string {
	var b []byte
	for _, f := range []struct {
		on     bool
		letter byte
	}{
		{d.monitoring, 'O'}, {d.kind() == pubsubClient, 'P'}, {d.multi >= 0, 'x'}, {d.blocked, 'b'},
		{d.tracking.On, 't'}, {d.tracking.Broken, 'R'}, {d.tracking.Broadcast, 'B'},
		{d.unix, 'U'}, {d.noEvict, 'e'},
	} {
		if f.on {
			b = append(b, f.letter)
		}
	}
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// writeTo writes a line of CLIENT LIST. Fields that describe Redis's own memory are 0.
func (d *description) writeTo(b *bytes.Buffer) {
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d "+
		"multi=%d "+
		"qbuf=%d qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s "+
		"user=%s redir=%d resp=%d "+
		"lib-name=%s lib-ver=%s\n",
		d.id, d.addr, d.laddr, d.fd, d.name, int(d.age.Seconds()), int(d.idle.Seconds()), d.flags(), d.db, d.sub,
		d.psub, d.ssub, d.multi,
		d.requests, d.output, d.requests+d.output, d.command, d.user, d.tracking.Redirect, d.protocol,
		d.libName, d.libVersion)
}
