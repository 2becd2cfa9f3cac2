package proxy

import (
	"time"

	"leash/lockcmd"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/slowlog"
	"leash/proxy/upstream"
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

// adminSlowlog answers LEASH SLOWLOG. To reset the log needs the right to set settings of Redis.
func (s *session) adminSlowlog(c *command.Command, cmd resp.Command) bool {
	log, sub, args := s.server.relaying.Slow, cmd.Args[2], cmd.Args[3:]
	switch {
	case resp.IsWord(sub, "GET") && len(args) <= 1:
		return s.slowest(log, args)
	case resp.IsWord(sub, "LEN") && len(args) == 0:
		return s.answer(resp.AppendInt(nil, int64(log.Len())))
	case resp.IsWord(sub, "RESET") && len(args) == 0:
		if !s.router.Permitted(toSet...) {
			return true
		}
		log.Reset()
		return s.ok()
	case resp.IsWord(sub, "HELP") && len(args) == 0:
		b := resp.AppendArray(nil, len(slowlogHelp))
		for _, line := range slowlogHelp {
			b = resp.AppendStatus(b, line)
		}
		return s.answer(b)
	}
	return s.fail("ERR unknown subcommand or wrong number of arguments for '" +
		string(command.Quoted(sub, command.MaxQuoted)) + "'. Try LEASH SLOWLOG HELP.")
}

// slowest answers LEASH SLOWLOG GET [count].
func (s *session) slowest(log *slowlog.Log, args [][]byte) bool {
	count := int64(slowlogLength)
	if len(args) > 0 {
		var ok bool
		if count, ok = resp.ParseInt(args[0]); !ok || count < -1 {
			return s.fail(msgSlowCount)
		}
	}
	if count < 0 {
		count = int64(log.Len())
	}
	entries := log.Newest(int(min(count, int64(log.Len()))))
	b := resp.AppendArray(nil, len(entries))
	for _, e := range entries {
		b = record(b, s.router.Lane.RESP3, "id", e.ID, "time", e.At.Unix(),
			"total-us", (e.Queued + e.Redis + e.Waited).Microseconds(), "queued-us", e.Queued.Microseconds(),
			"redis-us", e.Redis.Microseconds(), "waited-us", e.Waited.Microseconds(), "arguments", e.Args,
			"node", e.Node, "client", e.Client, "user", e.User)
	}
	return s.answer(b)
}

// logSlow adds a slow command of the client to the log. Safe for concurrent use.
func (s *session) logSlow(e slowlog.Entry) {
	e.At, e.Client, e.User = time.Now(), s.clientName(), s.user()
	s.server.relaying.Slow.Add(e)
}

// logSlowLock adds a lock command to the log if it was slow. It began at that time.
func (s *session) logSlowLock(carrier *lockcmd.Carrier, args [][]byte, began time.Duration) {
	now, arrived := upstream.Now(), s.calls.Arrived
	if !s.server.relaying.Slow.IsSlow(now - arrived) {
		return
	}
	waited := carrier.Waited()
	s.logSlow(slowlog.Entry{
		Queued: began - arrived, Waited: waited, Redis: max(now-began-waited, 0), Args: slowlog.Arguments(args),
	})
}
