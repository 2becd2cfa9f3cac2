package proxy

import (
	"fmt"

	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/resp"
)

// helloOptions are the arguments of HELLO after the protocol version.
type helloOptions struct {
	user, password []byte
	auth           bool
	name           []byte
	named          bool
}

// hello answers HELLO [2|3 [AUTH user password] [SETNAME name]]
// (https://redis.io/docs/latest/commands/hello/). The session moves to the lane of the protocol
// version and of the user.
func (s *session) hello(_ *command.Command, cmd resp.Command) bool {
	lane := s.router.Lane
	if len(cmd.Args) >= 2 {
		version, ok := resp.ParseInt(cmd.Args[1])
		switch {
		case !ok:
			return s.fail(msgProtoNumber)
		case version != 2 && (version != 3 || !s.server.up.SpeaksRESP3()):
			return s.fail(msgNoProto)
		}
		lane.RESP3 = version == 3
	}
	opts, problem := parseHello(cmd.Args)
	switch {
	case problem != "":
		return s.fail(problem)
	case opts.auth:
		lane.User = string(opts.user)
		command := resp.AppendCommand(nil, []byte("AUTH"), opts.user, opts.password)
		return s.authenticate(command, lane, opts.password, func() { s.welcome(opts) })
	case !s.router.Authenticated():
		return s.fail(msgHelloNoAuth)
	case lane != s.router.Lane:
		if !s.router.Barrier() {
			return false
		}
		s.server.up.Join(lane)
		s.changeLane(lane)
	}
	return s.welcome(opts)
}

func parseHello(args [][]byte) (o helloOptions, problem string) {
	for i := 2; i < len(args); {
		switch more := len(args) - i - 1; {
		case resp.IsWord(args[i], "AUTH") && more >= 2:
			o.auth, o.user, o.password = true, args[i+1], args[i+2]
			i += 3
		case resp.IsWord(args[i], "SETNAME") && more >= 1:
			o.named, o.name = true, args[i+1]
			i += 2
			if !clients.Printable(o.name) {
				return o, clients.BadName
			}
		default:
			return o, fmt.Sprintf("ERR Syntax error in HELLO option '%s'", args[i])
		}
	}
	return o, ""
}

// welcome writes HELLO's reply, as one Redis would that owns every slot.
func (s *session) welcome(o helloOptions) bool {
	if o.named {
		clients.Rename((*owner)(s), string(o.name))
	}
	version := s.server.up.Version()
	if version == "" { // the embedded Redis does not report it
		version = command.BuiltinVersion
	}
	b, proto := resp.AppendArray(s.scratch[:0], 14), int64(2)
	if s.router.Lane.RESP3 {
		b, proto = resp.AppendMap(s.scratch[:0], 7), 3
	}
	for _, pair := range [...][2]string{{"server", "redis"}, {"version", version}} {
		b = resp.AppendBulk(b, pair[0])
		b = resp.AppendBulk(b, pair[1])
	}
	b = resp.AppendInt(resp.AppendBulk(b, "proto"), proto)
	b = resp.AppendInt(resp.AppendBulk(b, "id"), s.id)
	for _, pair := range [...][2]string{{"mode", s.server.mode()}, {"role", "master"}} {
		b = resp.AppendBulk(b, pair[0])
		b = resp.AppendBulk(b, pair[1])
	}
	b = append(resp.AppendBulk(b, "modules"), resp.EmptyArray...)
	s.scratch = b
	return s.answer(b)
}

// mode is the field mode of HELLO's reply. Clients read from it whether keys of one command must
// share a slot, and whether there are databases.
func (s *Server) mode() string {
	if s.up.Topology().Cluster() {
		return "cluster"
	}
	return "standalone"
}
