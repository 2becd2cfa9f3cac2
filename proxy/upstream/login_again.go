package upstream

import (
	"net"
	"time"
)

// A service that takes tokens for passwords ends a connection some time after its last AUTH: at the
// end of the token, or after some hours. So Leash sends AUTH again on open connections of its own
// user when it has a new password:
//
//	links      between two calls (Link.loginAgain)
//	pinned     while no session uses them, because AUTH within MULTI would shift the replies
//	subscribers in RESP3, between two commands (pubsub.line)
//	go-redis   replaces idle connections (checkedConn.SyscallConn)
//
// Subscriptions to sentinels send none: a sentinel has no tokens, and keeps open connections when a
// password changes. All other connections are short, or without a user.

const (
	passwordPoll = time.Second     // between two looks at the password
	loginRetry   = 5 * time.Second // before a refused password is sent again
)

// watchPassword reads the password again and again, until the Upstream ends, and sends a new one to
// open connections.
func (u *Upstream) watchPassword() {
	tick := time.NewTicker(passwordPoll)
	defer tick.Stop()
	for {
		refused := ""
		select {
		case <-u.ctx.Done():
			return
		case <-u.cfg.Reread:
		case refused = <-u.own.refused:
		case <-tick.C:
		}
		u.readPassword(refused)
		u.mu.Lock()
		nodes := u.nodesLocked()
		u.mu.Unlock()
		for _, n := range nodes {
			n.eachLink(u.loginAgain)
		}
	}
}

// Login is the state of one connection's login. The zero Login is that of a connection without a
// user. Not safe for concurrent use.
type Login struct {
	since   int64     // number of the newest password when the connection was made or sent AUTH
	sent    int64     // number of the password whose AUTH is in flight; 0: none is
	text    string    // that password
	refused int64     // number of the password that Redis has refused; 0: none
	retry   time.Time // when that password may be sent again
}

// NewLogin is the state for a connection that is about to be made.
func (u *Upstream) NewLogin() Login { return Login{since: u.own.number.Load()} }

// LoginAgain returns the AUTH that an open connection of a lane must send now, or nil. The caller
// sends it and gives the reply to Answer and NoteLogin.
func (u *Upstream) LoginAgain(lane Lane, l *Login) (command []byte) {
	newest := u.own.number.Load()
	if l.since >= newest || l.sent != 0 || !u.isOwn(lane.User) {
		return nil
	}
	if l.refused == newest && time.Now().Before(l.retry) {
		return nil
	}
	l.sent, l.text = newest, u.own.password()
	return authCommand(lane.User, []byte(l.text))
}

// Answer notes the reply to that AUTH. Redis leaves a connection as it was when it refuses an AUTH.
// Answer returns the password, for NoteLogin.
func (l *Login) Answer(reply []byte) (password string) {
	if reply[0] == '+' {
		l.since = l.sent
	} else {
		l.refused, l.retry = l.sent, time.Now().Add(loginRetry)
	}
	password = l.text
	l.sent, l.text = 0, ""
	return password
}

// NoteLogin logs and counts a reply to an AUTH on an open connection to a node. After a refusal,
// Leash reads the password again. It does not block, but it may log.
func (u *Upstream) NoteLogin(node net.Addr, reply []byte, password string) {
	refused := refusesCredential(reply)
	if reply[0] == '+' || refused {
		u.noteOwnLogin(node, reply)
	}
	if refused {
		select {
		case u.own.refused <- password:
		default:
		}
	}
}

// loginAgain sends AUTH on a link of Leash's own user if the password has changed. It is a call
// like any other, after all earlier calls and before all later ones.
func (u *Upstream) loginAgain(l *Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || l.broken != nil || l.closing != nil || l.dead || l.pinned && !l.steady {
		return
	}
	command := u.LoginAgain(l.lane, &l.login)
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
		c.link.node.up.NoteLogin(c.addr, c.reply, password)
	}
	return nil
}

// Lost implements Sink. The next connection logs in anyway.
func (c *loginCall) Lost(bool, error) {}

// Dropped implements Sink.
func (c *loginCall) Dropped() bool { return false }
