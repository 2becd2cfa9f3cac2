package proxy

import (
	"fmt"

	"leash/proxy/resp"
)

// helloOptions are the arguments of HELLO behind the protocol version.
type helloOptions struct {
	user, password []byte
	auth           bool
	name           []byte
	named          bool
}

// hello answers HELLO [2 [AUTH user password] [SETNAME name]]
// (https://redis.io/docs/latest/commands/hello/). RESP3 is refused with the
// code by which clients know that they must speak RESP2.
func (s *session) hello(_ *command, cmd resp.Command) bool {
	if len(cmd.Args) >= 2 {
		version, ok := resp.ParseInt(cmd.Args[1])
		switch {
		case !ok:
			return s.fail(msgProtoNumber)
		case version != 2:
			return s.fail(msgNoProto)
		}
	}
	opts, problem := parseHello(cmd.Args)
	switch {
	case problem != "":
		return s.fail(problem)
	case opts.auth:
		command := resp.AppendCommand(nil, []byte("AUTH"), opts.user, opts.password)
		return s.authenticate(command, string(opts.user), opts.password, func() { s.welcome(opts) })
	case !s.authenticated():
		return s.fail(msgHelloNoAuth)
	}
	return s.welcome(opts)
}

func parseHello(args [][]byte) (o helloOptions, problem string) {
	for i := 2; i < len(args); {
		switch more := len(args) - i - 1; {
		case isWord(args[i], "AUTH") && more >= 2:
			o.auth, o.user, o.password = true, args[i+1], args[i+2]
			i += 3
		case isWord(args[i], "SETNAME") && more >= 1:
			o.named, o.name = true, args[i+1]
			i += 2
			if !printable(o.name) {
				return o, msgBadName
			}
		default:
			return o, fmt.Sprintf("ERR Syntax error in HELLO option '%s'", args[i])
		}
	}
	return o, ""
}

// welcome answers HELLO as a single Redis does, which is what Leash looks like.
func (s *session) welcome(o helloOptions) bool {
	if o.named {
		s.rename(string(o.name))
	}
	version := s.server.up.Version()
	if version == "" { // the embedded one does not tell
		version = builtinVersion
	}
	b := resp.AppendArray(s.scratch[:0], 14)
	for _, pair := range [...][2]string{{"server", "redis"}, {"version", version}} {
		b = resp.AppendBulk(b, pair[0])
		b = resp.AppendBulk(b, pair[1])
	}
	b = resp.AppendInt(resp.AppendBulk(b, "proto"), 2)
	b = resp.AppendInt(resp.AppendBulk(b, "id"), s.id)
	for _, pair := range [...][2]string{{"mode", "standalone"}, {"role", "master"}} {
		b = resp.AppendBulk(b, pair[0])
		b = resp.AppendBulk(b, pair[1])
	}
	b = append(resp.AppendBulk(b, "modules"), resp.EmptyArray...)
	s.scratch = b
	return s.answer(b)
}
