package proxy

import (
	"leash/proxy/command"
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
