// Package entry is what comes before a client's first command: the PROXY protocol header of a
// balancer, the TLS handshake, the user whom a certificate names, and protected mode.
package entry

import (
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/client"
	"leash/proxy/ending"
	"leash/proxy/login"
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
