package login

import (
	"fmt"

	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgHelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO " +
		"<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol " +
		"version at the same time"
	msgNoProto     = "NOPROTO unsupported protocol version"
	msgProtoNumber = "ERR Protocol version is not an integer or out of range"
)

type helloOptions struct {
	user, password []byte
	auth           bool
	name           []byte
	named          bool
}

// Hello answers HELLO [2|3 [AUTH user password] [SETNAME name]]
// (https://redis.io/docs/latest/commands/hello/). The session moves to the lane of the protocol
// version and of the user.
func Hello(c Caller, _ *command.Command, cmd resp.Command) bool {
	lane := c.Router.Lane
	if len(cmd.Args) >= 2 {
		version, ok := resp.ParseInt(cmd.Args[1])
		switch {
		case !ok:
			return c.Router.Fail(msgProtoNumber)
		case version != 2 && (version != 3 || !c.Router.Up.SpeaksRESP3()):
			return c.Router.Fail(msgNoProto)
		}
		lane.RESP3 = version == 3
	}
	opts, problem := parseHello(cmd.Args)
	switch {
	case problem != "":
		return c.Router.Fail(problem)
	case opts.auth:
		lane.User = string(opts.user)
		request := resp.AppendCommand(nil, []byte("AUTH"), opts.user, opts.password)
		return c.authenticate(request, lane, opts.password, func() { c.welcome(opts) })
	case !c.Router.Authenticated():
		return c.Router.Fail(msgHelloNoAuth)
	case lane != c.Router.Lane:
		if !c.Router.Barrier() {
			return false
		}
		c.Router.Up.Nodes.Join(lane)
		c.Session.ChangeLane(lane)
	}
	return c.welcome(opts)
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
func (c Caller) welcome(o helloOptions) bool {
	if o.named {
		c.Session.SetName(string(o.name))
	}
	version := c.Router.Up.Version()
	if version == "" { // the embedded Redis does not report it
		version = command.BuiltinVersion
	}
	proto, mode := int64(2), "standalone" // from mode, clients read whether keys must share a slot
	if c.Router.Lane.RESP3 {
		proto = 3
	}
	if c.Router.Up.Cluster() {
		mode = "cluster"
	}
	b := resp.AppendPairs(nil, c.Router.Lane.RESP3, 7)
	b = resp.AppendBulk(resp.AppendBulk(b, "server"), "redis")
	b = resp.AppendBulk(resp.AppendBulk(b, "version"), version)
	b = resp.AppendInt(resp.AppendBulk(b, "proto"), proto)
	b = resp.AppendInt(resp.AppendBulk(b, "id"), c.Router.ID)
	b = resp.AppendBulk(resp.AppendBulk(b, "mode"), mode)
	b = resp.AppendBulk(resp.AppendBulk(b, "role"), "master")
	b = append(resp.AppendBulk(b, "modules"), resp.EmptyArray...)
	return c.Router.Answer(b)
}
