package call

import (
	"bytes"
	"strings"

	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// noScript is Redis's answer to EVALSHA when it does not have the script. noScriptOfValkey is the
// answer of Valkey since 8.1.
const (
	noScript         = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	noScriptOfValkey = "-NOSCRIPT No matching script.\r\n"
)

// reloadScript handles NOSCRIPT from a node that joined or restarted after the script was loaded.
// It loads the script there and sends the EVALSHA once more. It uses the session's own lane, so
// Redis checks the user's rights. It returns false for a script that Leash has not seen. It also
// returns false if the session's order of commands would change.
//
// A script can return the same error text itself, and must not run twice then. reloadScript looks
// for the text in the script and its arguments. It cannot notice a script that reads the text from
// a key. Leash sends such a script once more, and never a third time.
func (p *Part) reloadScript() bool {
	q := p.call.queue
	if p.scriptReloaded || p.call.fan != nil || p.path != nil || p.node == nil {
		return false
	}
	text, ok := p.missingScript()
	if !ok || !q.suspendUnless(p.overtakenLocked) {
		return false
	}
	p.scriptReloaded, p.state = true, redirected
	// the reply to the command behind it shows whether it worked
	load := &links.Request{
		Command: resp.AppendCommand(nil, "SCRIPT", "LOAD", text), Sink: links.Discard{}, Permit: q.session,
	}
	q.session.Submit(p.node, false, load)
	p.send(p.node, p.Asking)
	q.resume()
	return true
}

func (p *Part) missingScript() (text string, ok bool) {
	cmd, ok := resp.ParseRequest(p.Command)
	if !ok || len(cmd.Args) < 3 || !resp.IsWord(cmd.Args[0], "EVALSHA") && !resp.IsWord(cmd.Args[0], "EVALSHA_RO") {
		return "", false
	}
	text, ok = p.call.queue.server.Script(strings.ToLower(string(cmd.Args[1])))
	fake := strings.Contains(text, "NOSCRIPT") || bytes.Contains(p.Command, []byte("NOSCRIPT"))
	return text, ok && !fake
}

// overtakenLocked reports whether sending p again could change its order with a later call of the
// session. In a cluster, a script has the keys of one slot. A script without keys, or on a single
// Redis, may use any key.
func (p *Part) overtakenLocked() bool {
	if p.slot == slots.Any || !p.call.queue.server.Nodes.Cluster() {
		return p.call.next != nil
	}
	return p.laterOnSlotLocked()
}
