package entry

import (
	"errors"
	"io"
	"os"
	"time"

	"leash/proxy/ending"
	"leash/proxy/origin"
)

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
