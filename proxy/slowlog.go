package proxy

import (
	"time"

	"leash/lockcmd"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/slowlog"
)

// slowlogHandlers are the commands for the log of slow commands.
func slowlogHandlers() handlers {
	return handlers{
		"SLOWLOG|GET":   (*session).slowlogGet,
		"SLOWLOG|LEN":   everyMaster(merge.Sum),
		"SLOWLOG|RESET": everyMaster(merge.First),
	}
}

// slowlogGet answers SLOWLOG GET [count] with the newest entries of all masters. Each master
// numbers its entries itself.
func (s *session) slowlogGet(c *command.Command, cmd resp.Command) bool {
	limit := int64(slowlog.Listed)
	if len(cmd.Args) > 2 {
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports what is wrong
	}
	return everyMaster(merge.Slowlog(limit))(s, c, cmd)
}

// logSlow adds a slow command of the client to the log. Safe for concurrent use.
func (s *session) logSlow(e slowlog.Entry) {
	e.At, e.Client, e.User = time.Now(), s.clientName(), s.user()
	s.server.relaying.Slow.Add(e)
}

// logSlowLock adds a lock command to the log if it was slow. It began at that time.
func (s *session) logSlowLock(carrier *lockcmd.Carrier, args [][]byte, began time.Duration) {
	now, arrived := links.Now(), s.calls.Arrived
	if !s.server.relaying.Slow.IsSlow(now - arrived) {
		return
	}
	waited := carrier.Waited()
	s.logSlow(slowlog.Entry{
		Queued: began - arrived, Waited: waited, Redis: max(now-began-waited, 0), Args: slowlog.Arguments(args),
	})
}
