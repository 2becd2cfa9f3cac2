package dial

import (
	"bytes"
	"net"
	"time"
)

// loginRetry is the time before a refused password is sent again.
const loginRetry = 5 * time.Second

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
func (d *Dialer) NewLogin() Login { return Login{since: d.own.number.Load()} }

// Redis 7.2 and later leaves out the reply to a refused AUTH while the connection has replies that
// are not yet written (redis/redis#15640). All later replies would then be taken for others. So an
// AUTH on an open connection is followed by one without arguments. Redis refuses that one with
// AuthEnd, whatever its state and the user's rights.
const (
	emptyAuth = "*1\r\n$4\r\nAUTH\r\n"
	AuthEnd   = "-ERR wrong number of arguments for 'auth' command"
)

// AuthReply returns the reply to AUTH from all that came, up to AuthEnd.
func AuthReply(replies []byte) []byte {
	if bytes.HasPrefix(replies, []byte(AuthEnd)) {
		return []byte("-WRONGPASS (Redis left out its reply)\r\n")
	}
	return replies[:bytes.IndexByte(replies, '\n')+1]
}

// LoginAgain returns the commands that an open connection of a lane must send now, or nil. The
// caller sends them and gives AuthReply of their two replies to Answer and NoteLogin.
func (d *Dialer) LoginAgain(lane Lane, l *Login) (commands []byte) {
	newest := d.own.number.Load()
	if l.since >= newest || l.sent != 0 || !d.IsOwn(lane.User) {
		return nil
	}
	if l.refused == newest && time.Now().Before(l.retry) {
		return nil
	}
	l.sent, l.text = newest, d.own.password()
	return append(authCommand(lane.User, []byte(l.text)), emptyAuth...)
}

// InFlight reports whether an AUTH was sent that Answer has not yet got the reply to.
func (l *Login) InFlight() bool { return l.sent != 0 }

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
func (d *Dialer) NoteLogin(node net.Addr, reply []byte, password string) {
	refused := refusesCredential(reply)
	if reply[0] == '+' || refused {
		d.noteOwnLogin(node, reply)
	}
	if reply[0] == '+' {
		d.noteAccepted(password)
	}
	if refused {
		select {
		case d.own.refused <- password:
		default:
		}
	}
}

// RefusedPasswords delivers a password of Leash's own user that Redis has refused on an open
// connection. The caller reads the password again, with ReadPassword.
func (d *Dialer) RefusedPasswords() <-chan string { return d.own.refused }
