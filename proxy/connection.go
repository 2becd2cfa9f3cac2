package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"leash/lockcmd"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Redis's own messages for what is answered here.
const (
	msgNoAuth       = "NOAUTH Authentication required."
	msgHelloNoAuth  = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	msgNoProto      = "NOPROTO unsupported protocol version"
	msgProtoNumber  = "ERR Protocol version is not an integer or out of range"
	msgNotInteger   = "ERR value is not an integer or out of range"
	msgIntRange     = "ERR value is out of range, value must between -2147483648 and 2147483647"
	msgDBRange      = "ERR DB index is out of range"
	msgNoSelect     = "ERR SELECT is not allowed in cluster mode"
	msgBadName      = "ERR Client names cannot contain spaces, newlines or special characters."
	msgSyntax       = "ERR syntax error"
	msgUnknownField = "ERR Unrecognized option '%s'"
)

// handlers are the commands that Leash answers or treats in a way of its own.
// All others are relayed by their keys or refused (ordinary).
var handlers map[string]handler

func init() { // a map literal would refer to itself through the handlers
	handlers = map[string]handler{
		"PING": (*session).ping, "ECHO": (*session).echo, "QUIT": (*session).quit,
		"RESET": (*session).reset, "HELLO": (*session).hello, "AUTH": (*session).auth,
		"SELECT": (*session).selectDB,

		"CLIENT|ID": (*session).clientID, "CLIENT|SETNAME": (*session).setName,
		"CLIENT|GETNAME": (*session).getName, "CLIENT|SETINFO": (*session).setInfo,

		"MGET": (*session).split, "MSET": (*session).split, "DEL": (*session).split,
		"UNLINK": (*session).split, "EXISTS": (*session).split, "TOUCH": (*session).split,

		"COMMAND": (*session).relayAny, "COMMAND|COUNT": (*session).relayAny,
		"COMMAND|DOCS": (*session).relayAny, "COMMAND|INFO": (*session).relayAny,
		"COMMAND|LIST": (*session).relayAny, "COMMAND|GETKEYS": (*session).relayAny,
		"COMMAND|GETKEYSANDFLAGS": (*session).relayAny,
		"PUBLISH":                 (*session).relayAny, "TIME": (*session).relayAny,
		"SPUBLISH": (*session).relay,
		"EVAL":     (*session).relay, "EVAL_RO": (*session).relay, "EVALSHA": (*session).relay,
		"EVALSHA_RO": (*session).relay, "FCALL": (*session).relay, "FCALL_RO": (*session).relay,
		"CONFIG|GET": (*session).relayAny,

		"DBSIZE": (*session).dbSize, "SCRIPT|LOAD": (*session).scriptLoad, "INFO": (*session).info,
		"XREAD": (*session).streamRead, "XREADGROUP": (*session).streamRead,

		"MULTI": (*session).multi,

		"MIGRATE": (*session).refuse, "RESTORE-ASKING": (*session).refuse, "PFDEBUG": (*session).refuse,
	}
}

// isHelp reports whether a subcommand only explains its command.
func isHelp(name string) bool { return strings.HasSuffix(name, "|help") }

func (s *session) wrongArity(c *command) bool {
	return s.fail("ERR wrong number of arguments for '" + c.name + "' command")
}

// ready checks what Redis checks before it runs a command that is answered
// here; when it is false the answer has been given.
func (s *session) ready(c *command, cmd resp.Command) bool {
	switch {
	case !c.arityOK(cmd.Args):
		s.wrongArity(c)
	case !s.authenticated():
		s.fail(msgNoAuth)
	default:
		return true
	}
	return false
}

// refuse answers a command that Leash cannot do yet without harm to others.
func (s *session) refuse(c *command, cmd resp.Command) bool {
	switch {
	case c.subs != nil && len(cmd.Args) > 1:
		return s.unknownSub(c, cmd)
	case !c.arityOK(cmd.Args):
		return s.wrongArity(c)
	case !s.authenticated():
		return s.fail(msgNoAuth)
	}
	return s.fail("ERR '" + c.name + "' is not supported by leash yet")
}

// maxQuoted is how much of a name or of arguments Redis repeats in an error.
const maxQuoted = 128

// unknown answers a command that is in no table, in Redis's words. It does not
// go upstream: the server may know it after all, under a name of its own or
// since a newer version, and nobody knows what it does to a shared link.
func (s *session) unknown(cmd resp.Command) bool {
	b := append([]byte("ERR unknown command '"), quoted(cmd.Args[0], maxQuoted)...)
	b = append(b, "', with args beginning with: "...)
	start := len(b)
	for _, a := range cmd.Args[1:] {
		left := maxQuoted - (len(b) - start)
		if left <= 0 {
			break
		}
		b = append(b, '\'')
		b = append(b, quoted(a, left)...)
		b = append(b, "' "...)
	}
	return s.fail(string(b))
}

// quoted is an argument as C's printf shows it: up to a NUL, and no longer
// than limit.
func quoted(arg []byte, limit int) []byte {
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		arg = arg[:i]
	}
	return arg[:min(len(arg), limit)]
}

// unknownSub answers a subcommand that the table does not have.
func (s *session) unknownSub(c *command, cmd resp.Command) bool {
	return s.fail("ERR unknown subcommand '" + string(quoted(cmd.Args[1], maxQuoted)) + "'. Try " + strings.ToUpper(c.name) + " HELP.")
}

// multi refuses a transaction, and with it the commands that came along in one
// go, up to EXEC: they were meant to be executed together or not at all.
func (s *session) multi(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	s.refusing = true
	return s.fail("ERR 'multi' is not supported by leash yet")
}

// refuseQueued answers what was sent behind a refused MULTI without waiting
// for its reply.
func (s *session) refuseQueued(cmd resp.Command) bool {
	switch {
	case isWord(cmd.Args[0], "EXEC"):
		s.refusing = false
		return s.fail("EXECABORT Transaction discarded because of previous errors.")
	case isWord(cmd.Args[0], "DISCARD"):
		s.refusing = false
		return s.ok()
	case isWord(cmd.Args[0], "QUIT"):
		return s.quit(nil, cmd)
	}
	return s.fail("ERR 'multi' is not supported by leash yet, a command behind it was not executed")
}

func (s *session) ping(c *command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) > 2:
		return s.wrongArity(c)
	case !s.ready(c, cmd):
		return true
	case len(cmd.Args) == 2:
		s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	default:
		s.scratch = append(s.scratch[:0], resp.Pong...)
	}
	return s.answer(s.scratch)
}

func (s *session) echo(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	return s.answer(s.scratch)
}

func (s *session) ok() bool { return s.answer([]byte(resp.OK)) }

func (s *session) quit(*command, resp.Command) bool {
	s.ok()
	s.cause = endQuit
	return false
}

// reset makes the session as it was at first; its locks are released.
func (s *session) reset(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	if !s.barrier() {
		return false
	}
	s.Flush()
	s.endCarrier(lockcmd.Release)
	s.rename("")
	lane := s.server.startLane()
	s.server.up.Join(lane)
	s.changeLane(lane)
	return s.answer([]byte("+RESET\r\n"))
}

func (s *session) selectDB(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	db, ok := resp.ParseInt(cmd.Args[1])
	switch {
	case !ok:
		return s.fail(msgNotInteger)
	case db != int64(int32(db)):
		return s.fail(msgIntRange)
	case db < 0:
		return s.fail(msgDBRange)
	case db == 0:
		return s.ok()
	case s.server.up.Topology().Cluster():
		return s.fail(msgNoSelect)
	}
	return s.fail("ERR 'select' of another database than 0 is not supported by leash yet")
}

func (s *session) clientID(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	s.scratch = resp.AppendInt(s.scratch[:0], s.id)
	return s.answer(s.scratch)
}

func (s *session) setName(c *command, cmd resp.Command) bool {
	switch {
	case !s.ready(c, cmd):
		return true
	case !printable(cmd.Args[2]):
		return s.fail(msgBadName)
	}
	s.rename(string(cmd.Args[2]))
	return s.ok()
}

func (s *session) getName(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	switch {
	case s.name == "" && s.lane.RESP3:
		return s.answer([]byte(resp.Null))
	case s.name == "":
		return s.answer([]byte(resp.NilBulk))
	}
	s.scratch = resp.AppendBulk(s.scratch[:0], s.name)
	return s.answer(s.scratch)
}

// setInfo takes what client libraries say of themselves
// (https://redis.io/docs/latest/commands/client-setinfo/), also for servers
// that do not know it yet.
func (s *session) setInfo(c *command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) != 4:
		return s.wrongArity(c)
	case !s.authenticated():
		return s.fail(msgNoAuth)
	case !isWord(cmd.Args[2], "LIB-NAME") && !isWord(cmd.Args[2], "LIB-VER"):
		return s.fail(fmt.Sprintf(msgUnknownField, cmd.Args[2]))
	case !printable(cmd.Args[3]):
		return s.fail("ERR " + string(bytes.ToLower(cmd.Args[2])) + " cannot contain spaces, newlines or special characters.")
	}
	return s.ok()
}

func (s *session) rename(name string) {
	s.mu.Lock()
	s.name = name
	s.mu.Unlock()
}

// printable is Redis's rule for names: '!' to '~'.
func printable(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// auth runs AUTH [user] password on a connection of its own and, when Redis
// accepts, moves the session to the user's lane.
func (s *session) auth(c *command, cmd resp.Command) bool {
	switch len(cmd.Args) {
	case 2:
		return s.authenticate(cmd.Raw, upstream.Lane{User: "default", RESP3: s.lane.RESP3}, cmd.Args[1], nil)
	case 3:
		return s.authenticate(cmd.Raw, upstream.Lane{User: string(cmd.Args[1]), RESP3: s.lane.RESP3}, cmd.Args[2], nil)
	case 1:
		return s.wrongArity(c)
	}
	return s.fail(msgSyntax)
}

// authenticate moves the session to a lane if Redis accepts the password of
// the lane's user. It answers with Redis's reply to command, or, when Redis
// accepts and then is given, with what that makes.
func (s *session) authenticate(command []byte, lane upstream.Lane, password []byte, then func()) bool {
	if !s.barrier() {
		return false
	}
	s.server.up.Join(lane)
	reply, ok, err := s.server.up.Authenticate(s.ctx, command, lane.User, password)
	if ok {
		s.changeLane(lane)
		if then != nil {
			then()
			return true
		}
		return s.answer(reply)
	}
	s.server.up.Leave(lane)
	if err != nil {
		s.server.log.Warn("authentication could not be tried", "err", err)
		return s.fail(msgUpstreamDown)
	}
	return s.answer(reply)
}
