package entry

import "net"

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
