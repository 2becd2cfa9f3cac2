package operators

import (
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/slowlog"
)

const msgSlowCount = "ERR count should be greater than or equal to -1"

// slowlogHelp is the reply to LEASH SLOWLOG HELP.
var slowlogHelp = []string{
	"Slow commands of this Leash. LEASH SLOWLOG",
	"GET [count]",
	"    Lists the last ones, the newest first: 10, or count, or all for -1.",
	"LEN",
	"    Returns how many there are.",
	"RESET",
	"    Removes all of them.",
	"HELP",
	"    Prints this help.",
}

// slowLog answers LEASH SLOWLOG. To reset the log needs the right to set settings of Redis.
func slowLog(by Caller, c *command.Command, cmd resp.Command) bool {
	log, sub, args := by.Slow, cmd.Args[2], cmd.Args[3:]
	switch {
	case resp.IsWord(sub, "GET") && len(args) <= 1:
		return by.slowest(log, args)
	case resp.IsWord(sub, "LEN") && len(args) == 0:
		return by.Router.Answer(resp.AppendInt(nil, int64(log.Len())))
	case resp.IsWord(sub, "RESET") && len(args) == 0:
		if !by.Router.Permitted(toSet...) {
			return true
		}
		log.Reset()
		return by.Router.OK()
	case resp.IsWord(sub, "HELP") && len(args) == 0:
		b := resp.AppendArray(nil, len(slowlogHelp))
		for _, line := range slowlogHelp {
			b = resp.AppendStatus(b, line)
		}
		return by.Router.Answer(b)
	}
	return by.Router.Fail("ERR unknown subcommand or wrong number of arguments for '" +
		string(command.Quoted(sub, command.MaxQuoted)) + "'. Try LEASH SLOWLOG HELP.")
}

func (by Caller) slowest(log *slowlog.Log, args [][]byte) bool {
	count := int64(slowlog.Listed)
	if len(args) > 0 {
		var ok bool
		if count, ok = resp.ParseInt(args[0]); !ok || count < -1 {
			return by.Router.Fail(msgSlowCount)
		}
	}
	if count < 0 {
		count = int64(log.Len())
	}
	entries := log.Newest(int(min(count, int64(log.Len()))))
	b := resp.AppendArray(nil, len(entries))
	for _, e := range entries {
		b = record(b, by.Router.Lane.RESP3, "id", e.ID, "time", e.At.Unix(),
			"total-us", (e.Queued + e.Redis + e.Waited).Microseconds(), "queued-us", e.Queued.Microseconds(),
			"redis-us", e.Redis.Microseconds(), "waited-us", e.Waited.Microseconds(), "arguments", e.Args,
			"node", e.Node, "client", e.Client, "user", e.User)
	}
	return by.Router.Answer(b)
}
