package proxy

import (
	"bytes"
	"strings"
	"time"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// noScript is how Redis answers EVALSHA when it does not have the script, and
// noScriptOfValkey how Valkey does from 8.1 on.
const (
	noScript         = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	noScriptOfValkey = "-NOSCRIPT No matching script.\r\n"
)

// reloadScript answers NOSCRIPT of a node that joined or was restarted after the script
// was loaded: it loads the script there, in the session's own lane, so that Redis
// decides whether its user may, and sends the EVALSHA once more. It declines for
// a script that Leash has not seen, and where a later command of the session
// would be overtaken.
//
// A script can answer in Redis's own words without being missing, and must not
// run twice for it. One that has them from its text or its arguments is told by
// that; one that reads them from a key gets what it asked for, once.
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
	s.held++
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
	if !ok || len(cmd.Args) < 3 || !isWord(cmd.Args[0], "EVALSHA") && !isWord(cmd.Args[0], "EVALSHA_RO") {
		return "", false
	}
	text, ok = p.call.session.server.scripts.find(strings.ToLower(string(cmd.Args[1])))
	fake := strings.Contains(text, "NOSCRIPT") || bytes.Contains(p.Request, []byte("NOSCRIPT"))
	return text, ok && !fake
}

// overtakesLocked reports whether p, sent again, might change places with a
// later call of the session. In a cluster a script has the keys of one slot; one
// without keys, and any on a single Redis, may use what it likes.
func (s *session) overtakesLocked(p *part) bool {
	if p.slot == anySlot || !s.server.up.Topology().Cluster() {
		return p.call.next != nil
	}
	return s.laterOnSlotLocked(p)
}

// reload is a SCRIPT LOAD of Leash's own, right before the command that
// needs it. What comes of it that command will tell.
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
