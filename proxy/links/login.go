package links

import (
	"net"
)

// A service that takes tokens for passwords ends a connection some time after its last AUTH: at the
// end of the token, or after some hours. So Leash sends AUTH again on open connections of its own
// user when it has a new password:
//
//	links      between two calls (Link.loginAgain)
//	pinned     while no session uses them, because AUTH within MULTI would shift the replies
//	subscribers in RESP3, between two commands (pubsub.line)
//	go-redis   replaces idle connections (dial.OwnConn)
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

// loginAgain sends AUTH on a link of Leash's own user if the password has changed. It is a call
// like any other, after all earlier calls and before all later ones.
func (l *Link) loginAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || l.broken != nil || l.closing != nil || l.dead || l.pinned && !l.steady {
		return
	}
	command := l.node.nodes.Dialer.LoginAgain(l.lane, &l.login)
	if command == nil {
		return
	}
	if l.submitLocked(&Call{Request: command, Sink: &loginCall{link: l, addr: l.conn.RemoteAddr()}}) {
		l.signal()
	}
}

// loginCall is the sink of an AUTH on an open link.
type loginCall struct {
	Unlimited
	link  *Link
	addr  net.Addr
	reply []byte
}

// Reply implements Sink.
func (c *loginCall) Reply(part []byte, done bool) Flusher {
	c.reply = append(c.reply, part...)
	if done {
		c.link.mu.Lock()
		password := c.link.login.Answer(c.reply)
		c.link.mu.Unlock()
		c.link.node.nodes.Dialer.NoteLogin(c.addr, c.reply, password)
	}
	return nil
}

// Lost implements Sink. The next connection logs in anyway.
func (c *loginCall) Lost(bool, error) {}
