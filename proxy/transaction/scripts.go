package transaction

import (
	"strings"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// digest returns which script an EVALSHA runs. It is empty for other commands.
func digest(c *command.Command, cmd resp.Command) string {
	if (c.Name == "evalsha" || c.Name == "evalsha_ro") && len(cmd.Args) > 1 {
		return strings.ToLower(string(cmd.Args[1]))
	}
	return ""
}

// changesScripts reports whether a command changes which scripts Redis has.
func changesScripts(c *command.Command) bool {
	return c.Name == "eval" || c.Name == "eval_ro" || c.Name == "script|flush"
}

// noteScripts tells the session of the commands that have changed which scripts Redis has.
func (t *Transaction) noteScripts(executed []queued) {
	for _, q := range executed {
		if !q.scripts {
			continue
		}
		if cmd, ok := resp.ParseRequest(q.request); ok {
			t.Session.ScriptsChanged(cmd)
		}
	}
}

// loadScripts loads the scripts of unsent commands on the transaction's node, if Leash has seen
// them. The client may have sent them to another node, or to one that has failed since. A NOSCRIPT
// from EXEC would come too late, because the other commands have been executed then.
//
// Redis checks the user's rights. What it answers is not needed, because EVALSHA fails if the
// script is missing. After MULTI, the transaction's own connection would queue the command.
func (t *Transaction) loadScripts(unsent []queued) {
	var loads [][]byte
	for _, q := range unsent {
		if q.script == "" {
			continue
		}
		if text, ok := t.Session.Script(q.script); ok && t.link.FirstUse(q.script) {
			loads = append(loads, resp.AppendCommand(nil, "SCRIPT", "LOAD", text))
		}
	}
	switch {
	case len(loads) == 0:
	case t.sent == 0:
		t.Router.Gather(t.link, loads...)
	default:
		l := t.node.Pin(t.Router.Lane, nil)
		t.Router.Gather(l, loads...)
		l.Unpin(true)
	}
}
