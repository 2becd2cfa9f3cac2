package links

import (
	"net"

	"leash/proxy/dial"
)

// A service that takes tokens for passwords ends a connection some time after its last AUTH: at the
// end of the token, or after some hours. So Leash sends AUTH again on open connections of its own
// user when it has a new password:
//
//	links      between two requests (Link.loginAgain)
//	pinned     while no session uses them, because AUTH within MULTI would shift the replies
//	subscribers in RESP3, between two commands (pubsub.line)
//
// Subscriptions to sentinels send none: a sentinel has no tokens, and keeps open connections when a
// password changes. All other connections are short, or without a user.

// LogInAgain sends AUTH on every open connection of Leash's own user that does not have its newest
// password yet.
func (ns *Nodes) LogInAgain() {
	for _, n := range ns.All() {
		n.eachLink((*Link).loginAgain)
	}
}

// loginAgain sends AUTH on a link of Leash's own user if the password has changed. It is a request
// like any other, after all earlier requests and before all later ones.
func (l *Link) loginAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || l.broken != nil || l.closing != nil || l.dead || l.pinned && !l.steady {
		return
	}
	commands := l.node.nodes.Dialer.LoginAgain(l.lane, &l.login)
	if commands == nil {
		return
	}
	addr := l.conn.RemoteAddr()
	sink := &whole{ended: func(replies []byte, lost error) {
		if lost == nil { // otherwise the next connection logs in
			l.loggedIn(addr, dial.AuthReply(replies))
		}
	}}
	if l.submitLocked(&Request{Command: commands, Replies: 2, End: dial.AuthEnd, Sink: sink}) {
		Signal(l.wake)
	}
}

func (l *Link) loggedIn(addr net.Addr, reply []byte) {
	l.mu.Lock()
	password := l.login.Answer(reply)
	l.mu.Unlock()
	l.node.nodes.Dialer.NoteLogin(addr, reply, password)
}
