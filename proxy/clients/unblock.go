package clients

import (
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// unblock answers CLIENT UNBLOCK id [TIMEOUT|ERROR]
// (https://redis.io/docs/latest/commands/client-unblock/). Redis ends its own blocking commands,
// with its own reply. lockcmd ends the lock commands that wait.
func unblock(by Caller, cmd resp.Command) bool {
	reason := "TIMEOUT"
	if len(cmd.Args) == 4 {
		switch {
		case resp.IsWord(cmd.Args[3], "ERROR"):
			reason = "ERROR"
		case !resp.IsWord(cmd.Args[3], "TIMEOUT"):
			return by.Router.Fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		}
	}
	id, ok := resp.ParseInt(cmd.Args[2])
	if !ok {
		return by.Router.Fail(command.NotInteger)
	}
	one := by.Client(id)
	if one == nil {
		return by.answerInt(0)
	}
	if one.Unblock(reason == "ERROR") {
		return by.answerInt(1)
	}
	var parts []*call.Part
	var to []*links.Node
	for _, own := range one.Pins() {
		n, client := own.Target()
		if n == nil {
			continue
		}
		request := resp.AppendCommand(nil, []byte("CLIENT"), []byte("UNBLOCK"), resp.AppendDecimal(nil, client),
			[]byte(reason))
		parts, to = append(parts, call.FixedPart(request)), append(to, n)
	}
	if len(parts) == 0 {
		return by.answerInt(0)
	}
	return by.Router.FanOut(parts, to, len(cmd.Raw), merge.Most)
}
