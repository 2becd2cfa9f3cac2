package proxy

import (
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgMaintenancePushes = "ERR CLIENT MAINT_NOTIFICATIONS needs RESP3: send HELLO 3 first"
	msgEndpointType      = "ERR Invalid moving-endpoint-type"
)

// endpointTypes are what a client may ask to be told about the place to move to. Leash always says
// that it is the address that the client has connected to.
var endpointTypes = []string{"NONE", "INTERNAL-IP", "INTERNAL-FQDN", "EXTERNAL-IP", "EXTERNAL-FQDN"}

// maintNotifications answers CLIENT MAINT_NOTIFICATIONS ON [moving-endpoint-type TYPE] | OFF, by
// which clients of Redis Cloud ask to be told before a connection ends. go-redis, redis-py,
// node-redis, Jedis and Lettuce send it by themselves.
func (s *session) maintNotifications(c *command.Command, cmd resp.Command) bool {
	if !s.server.cfg.MaintNotifications {
		return s.router.Refuse(c, cmd)
	}
	args := cmd.Args[2:]
	switch on := len(args) > 0 && resp.IsWord(args[0], "ON"); {
	case !s.router.Authenticated():
		return s.fail(command.NoAuth)
	case len(args) == 1 && resp.IsWord(args[0], "OFF"):
		s.move.Store(false)
		return s.ok()
	case len(args) == 0:
		return s.router.WrongArity(c)
	case !on || len(args) == 2 || len(args) > 3 || len(args) == 3 && !resp.IsWord(args[1], "MOVING-ENDPOINT-TYPE"):
		return s.fail(command.SyntaxError)
	case len(args) == 3 && !isEndpointType(args[2]):
		return s.fail(msgEndpointType)
	case !s.router.Lane.RESP3:
		return s.fail(msgMaintenancePushes)
	}
	s.move.Store(true)
	return s.ok()
}

func isEndpointType(arg []byte) bool {
	for _, t := range endpointTypes {
		if resp.IsWord(arg, t) {
			return true
		}
	}
	return false
}

// AnnounceStop tells clients that asked for it (CLIENT MAINT_NOTIFICATIONS ON) that this Leash ends
// their connections after that time, in whole seconds. They connect again before, to the same
// address. From then on they are granted no lock. A client that holds a lock or waits for one is
// not told: its lock would end with its connection. Safe for concurrent use; waits for no client.
func (s *Server) AnnounceStop(within time.Duration) {
	seconds := int64(within / time.Second)
	if seconds == 0 {
		return
	}
	frame := resp.AppendInt([]byte(">4\r\n$6\r\nMOVING\r\n"), time.Now().Unix())
	frame = append(resp.AppendInt(frame, seconds), resp.Null...)
	for _, one := range s.all() {
		if one.move.Load() && one.locking().RefuseGrants() {
			(*owner)(one).Notify(frame)
		}
	}
}
