package dial

import (
	"context"
	"errors"
	"net"
	"syscall"

	"leash/internal/guard"
	"leash/proxy/resp"
)

// maxControlReply limits the replies to Leash's own commands, in bytes. COMMAND has some 300 KB,
// CLUSTER NODES 200 bytes a node.
const maxControlReply = 64 << 20

// maxSetUpReply limits a reply while a connection is set up, in bytes.
const maxSetUpReply = 64 << 10

// DialOwn dials for go-redis, as Leash's own user.
func (d *Dialer) DialOwn(ctx context.Context, _, addr string) (net.Conn, error) {
	conn, err := d.OpenOwn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// OpenOwn opens a connection on which go-redis authenticates as Leash's own user. It notes whether
// Redis accepts the password.
func (d *Dialer) OpenOwn(ctx context.Context, addr string) (*CheckedConn, error) {
	conn, err := d.Open(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := newCheckedConn(conn)
	if d.IsOwn(d.ServiceUser()) {
		c.login = func(reply []byte) { d.noteOwnLogin(conn.RemoteAddr(), reply) }
		number := d.own.number.Load()
		c.outdated = func() bool { return d.own.number.Load() != number }
	}
	return c, nil
}

// CheckedConn gives go-redis only whole RESP2 replies. go-redis allocates what a header announces
// before the bytes arrive, decodes arrays by recursion, and takes an error inside an array for the
// end of the reply. A connection with other bytes ends with resp.ErrFrame.
type CheckedConn struct {
	net.Conn

	// login gets the first reply that shows whether the login was accepted. It is then nil. It
	// belongs to the goroutine that reads.
	login func(reply []byte)
	// outdated reports whether there is a newer password than that of the login; nil: there is
	// never one.
	outdated func() bool
	unbind   func() bool // set by CloseWith

	// The fields below belong to the goroutine that reads.
	scan  resp.Scanner
	buf   []byte
	given int // buf[:given] has been read
	whole int // buf[given:whole] is whole replies
	seen  int // buf[whole:seen] is the beginning of the next one, scanned
}

func newCheckedConn(conn net.Conn) *CheckedConn {
	return &CheckedConn{Conn: conn, scan: resp.Scanner{RESP2: true}}
}

// CloseWith closes the connection when ctx is done. Call it once, before the connection is used.
func (c *CheckedConn) CloseWith(ctx context.Context) {
	c.unbind = context.AfterFunc(ctx, guard.Func(nil, "end of a connection", func() { c.Conn.Close() }))
}

// Close implements net.Conn.
func (c *CheckedConn) Close() error {
	if c.unbind != nil {
		c.unbind()
	}
	return c.Conn.Close()
}

// SyscallConn returns the socket, also below TLS. go-redis looks there whether Redis has ended a
// connection while it was idle. With an error, go-redis makes a new connection instead. So no
// connection stays for long after the password has changed.
func (c *CheckedConn) SyscallConn() (syscall.RawConn, error) {
	if c.outdated != nil && c.outdated() {
		return nil, ErrOldPassword
	}
	return socketOf(c.Conn).SyscallConn()
}

// Read implements net.Conn.
func (c *CheckedConn) Read(p []byte) (int, error) {
	for c.given == c.whole {
		if err := c.fill(); err != nil {
			if errors.Is(err, resp.ErrFrame) {
				c.Conn.Close()
			}
			return 0, err
		}
	}
	n := copy(p, c.buf[c.given:c.whole])
	c.given += n
	return n, nil
}

// keptControlBuffer limits the buffer of an idle connection, in bytes.
const keptControlBuffer = 32 << 10

// fill reads once. It may be called only when Read has returned all complete replies.
func (c *CheckedConn) fill() error {
	rest := copy(c.buf, c.buf[c.whole:c.seen])
	c.buf = c.buf[:rest]
	c.given, c.whole, c.seen = 0, 0, rest
	switch {
	case rest == 0 && cap(c.buf) > keptControlBuffer, cap(c.buf) == 0:
		c.buf = make([]byte, 0, 4<<10)
	case rest == cap(c.buf):
		c.buf = append(make([]byte, 0, 2*rest), c.buf...)
	}
	n, err := c.Conn.Read(c.buf[rest:cap(c.buf)])
	if n == 0 && err != nil {
		return err
	}
	c.buf = c.buf[:rest+n]
	for c.seen < len(c.buf) {
		used, done, err := c.scan.Scan(c.buf[c.seen:])
		if err != nil {
			return err
		}
		c.seen += used
		switch {
		case !done && c.seen-c.whole > maxControlReply, done && !resp.Plain(c.buf[c.whole:c.seen]):
			return resp.ErrFrame
		case done:
			c.noteLogin(c.buf[c.whole:c.seen])
			c.whole = c.seen
		}
	}
	return nil
}

// noteLogin passes on the reply to the login. Errors about other things, such as HELLO at an old
// Redis, do not show whether the password is right.
func (c *CheckedConn) noteLogin(reply []byte) {
	if c.login != nil && (reply[0] != '-' || refusesCredential(reply)) {
		c.login(reply)
		c.login = nil
	}
}
