package proxy

import (
	"bytes"
	"strings"
	"time"

	"leash/proxy/resp"
	"leash/proxy/upstream"
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
func (p *part) reloadScript() bool {
	s := p.call.session
	if p.scriptReloaded || p.call.fan != nil || p.pin != nil || p.node == nil {
		return false
	}
	text, ok := p.missingScript()
	if !ok {
		return false
	}
	s.mu.Lock()
	if s.overtakesLocked(p) {
		s.mu.Unlock()
		return false
	}
	s.calls.held++
	s.mu.Unlock()
	p.scriptReloaded = true
	load := &reload{session: s}
	load.Request, load.Sink = resp.AppendCommand(nil, "SCRIPT", "LOAD", text), load
	s.linkTo(p.node).Submit(&load.Call)
	p.send(p.node, p.Asking)
	s.release()
	return true
}

// missingScript returns the script that the part's EVALSHA names.
func (p *part) missingScript() (text string, ok bool) {
	cmd, ok := resp.ParseRequest(p.Request)
	if !ok || len(cmd.Args) < 3 || !resp.IsWord(cmd.Args[0], "EVALSHA") && !resp.IsWord(cmd.Args[0], "EVALSHA_RO") {
		return "", false
	}
	text, ok = p.call.session.server.scripts.find(strings.ToLower(string(cmd.Args[1])))
	fake := strings.Contains(text, "NOSCRIPT") || bytes.Contains(p.Request, []byte("NOSCRIPT"))
	return text, ok && !fake
}

// overtakesLocked reports whether sending p again could change its order with a later call of the
// session. In a cluster, a script has the keys of one slot. A script without keys, or on a single
// Redis, may use any key.
func (s *session) overtakesLocked(p *part) bool {
	if p.slot == anySlot || !s.server.up.Topology().Cluster() {
		return p.call.next != nil
	}
	return s.laterOnSlotLocked(p)
}

// reload is a SCRIPT LOAD that Leash sends right before the command that needs it. That command's
// reply shows whether it worked.
type reload struct {
	upstream.Call
	session *session
}

var _ upstream.Sink = (*reload)(nil)

// Reply implements upstream.Sink.
func (l *reload) Reply([]byte, bool) upstream.Flusher { return nil }

// Lost implements upstream.Sink.
func (l *reload) Lost(bool, error) {}

// Dropped implements upstream.Sink.
func (l *reload) Dropped() bool { return l.session.killed.Load() }

// Until implements upstream.Sink.
func (l *reload) Until() *time.Time { return l.session.holdsUntil() }

// Overdue implements upstream.Sink.
func (l *reload) Overdue() { l.session.checkHolds() }
