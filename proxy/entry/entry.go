// Package entry is what comes before a client's first command: the PROXY protocol header of a
// balancer, the TLS handshake, the user whom a certificate names, and protected mode.
package entry

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/client"
	"leash/proxy/ending"
	"leash/proxy/login"
	"leash/proxy/origin"
)

// warnInterval is the time between two warnings of a kind. Other such events are logged at level
// debug.
const warnInterval = time.Minute

// Server is what the entries of all clients share. Only its counts change after the first use.
type Server struct {
	HeaderTimeout time.Duration // for the header and for the handshake, each
	ProtectedMode bool          // refuse clients of other machines that need no password
	TrustClients  bool          // clients start as the upstream user
	// UserOf returns the user whom a client's certificate names, and the password. It does not
	// block. nil: certificates name no users.
	UserOf func(tls.ConnectionState) (user, password string, ok bool)
	Log    *slog.Logger

	BadHeaders    atomic.Int64 // connections without a valid header of the PROXY protocol
	BadHandshakes atomic.Int64 // connections whose TLS handshake failed

	header, plain, tls, handshake, user, protected limits.Interval // between warnings
}

// Client is one client that enters. Only its session's loop calls the methods, which block. Those
// that return false have set the session's ending, and the session ends.
type Client struct {
	*Server
	Conn  *client.Conn
	End   *ending.Ending
	Login login.Caller
	Read  func() error // reads more bytes of the client
}

// Enter does all that comes before a client's first byte of a command. since is when the client
// came.
func (c Client) Enter(since time.Time) bool {
	if err := c.readOrigin(since); err != nil {
		c.refuseOrigin(err)
		return false
	}
	if err := c.shakeHands(); err != nil {
		c.refuseHandshake(err)
		return false
	}
	if !c.ByCertificate() {
		c.readRefused()
		return false
	}
	return c.passProtected()
}

// readRefused reads the first bytes of a client that has got an error. Without that, closing the
// socket could reset the connection before the client has read the error.
func (c Client) readRefused() {
	c.Login.Router.Out.Flush()
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.HeaderTimeout))
	_ = c.Read()
}

// warn logs a warning of a kind, or at level debug if there has been one within warnInterval.
func (c Client) warn(kind *limits.Interval, message string, args ...any) {
	log := c.Log.Debug
	if kind.Due(time.Now(), warnInterval) {
		log = c.Log.Warn
	}
	log(message, args...)
}

// readOrigin reads the PROXY protocol header of a connection that a balancer relays. All later
// bytes are the client's.
func (c Client) readOrigin(since time.Time) error {
	if !c.Conn.Balanced() {
		return nil
	}
	_ = c.Conn.SetReadDeadline(since.Add(c.HeaderTimeout))
	if c.End.Leaving() {
		return ending.ErrLeaving // the session's leave has set a deadline that the one above may have replaced
	}
	if err := c.Conn.ReadOrigin(); err != nil {
		return err
	}
	_ = c.Conn.SetReadDeadline(time.Time{})
	return nil
}

// refuseOrigin counts and logs a connection without a valid header. It ignores a connection that
// closes without sending anything, because that may be a health check.
func (c Client) refuseOrigin(err error) {
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	if c.End.By(err) == ending.Killed || !timeout && !errors.Is(err, origin.ErrHeader) && err != io.ErrUnexpectedEOF {
		return
	}
	c.End.Set(ending.Refused)
	c.BadHeaders.Add(1)
	c.warn(&c.header, "connection without the header that --proxy-protocol asks for, closing it",
		"session", c.Login.Router.ID, "balancer", c.Conn.RemoteAddr(), "err", err)
}

// msgProtected is the error of Server.ProtectedMode. It begins as Redis's own.
const msgProtected = "DENIED Leash is running in protected mode because protected mode is enabled and clients " +
	"need no password. In this mode connections are only accepted from the loopback interface. To connect from other " +
	"computers, do one of these: 1) set a password for the default user of Redis; 2) start Leash with " +
	"--require-auth; 3) start Leash without --protected-mode, if only friends can reach its port."

// protectedMode is the reason for the end of a client that protected mode refuses.
const protectedMode = "protected mode"

// passProtected refuses a client of another machine that is served without having proved who it is.
// The client gets the error once it has sent something, or after HeaderTimeout.
func (c Client) passProtected() bool {
	if !c.ProtectedMode || isLocal(c.Conn.RemoteAddr()) || c.isIdentified() {
		return true
	}
	c.warn(&c.protected, "protected mode refuses a client of another machine", "client", c.Conn.RemoteAddr())
	c.End.Refuse(protectedMode)
	c.Login.Router.Fail(msgProtected)
	c.readRefused()
	return false
}

// isIdentified reports whether nobody can run commands in this session without a password or a
// certificate.
func (c Client) isIdentified() bool {
	switch {
	case c.Conn.Secure() && len(c.Conn.TLSState().VerifiedChains) > 0:
		return true
	case c.TrustClients:
		return false
	}
	return c.Login.Router.Lane.User != "" || !c.Login.Router.Authenticated()
}

func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
