package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"leash/proxy/resp"
)

// maxControlReply limits the replies to Leash's own questions, in bytes. COMMAND has some 300 KB,
// CLUSTER NODES 200 bytes a node.
const maxControlReply = 64 << 20

// maxSetUpReply limits a reply while a connection is set up, in bytes.
const maxSetUpReply = 64 << 10

// ErrNull is the error for a null reply.
var ErrNull = errors.New("a null, where Redis gives a value")

// Conn is a connection for questions to one server. Replies are decoded as RESP2, see resp.Decode.
// After an error that is no resp.ReplyError it cannot be used any more. It is not safe for
// concurrent use.
type Conn struct {
	net.Conn
	scan resp.Scanner
	buf  []byte // what was read and not yet returned
	seen int    // buf[:seen] is scanned
}

func newConn(conn net.Conn) *Conn {
	return &Conn{Conn: conn, scan: resp.Scanner{RESP2: true}}
}

// Do sends a command and returns the reply. The error is a resp.ReplyError if Redis answers with
// one, ErrNull for a null, and resp.ErrFrame for anything that Redis does not send.
func (c *Conn) Do(words ...string) (reply any, err error) {
	if err := c.Send(words...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send sends a command whose replies Receive returns.
func (c *Conn) Send(words ...string) error {
	_, err := c.Write(resp.AppendCommand(nil, words...))
	return err
}

// Receive returns the next reply, with the errors of Do. After a time-out of a read deadline, it
// may be called again.
func (c *Conn) Receive() (reply any, err error) {
	frame, err := c.frame(maxControlReply)
	if err != nil {
		return nil, err
	}
	reply, ok := resp.Decode(frame)
	switch refused, is := reply.(resp.ReplyError); {
	case !ok:
		return nil, resp.ErrFrame
	case is:
		return nil, refused
	case reply == nil:
		return nil, ErrNull
	}
	return reply, nil
}

// frame returns the bytes of the next reply, which are about most at most.
func (c *Conn) frame(most int) ([]byte, error) {
	for {
		used, done, err := c.scan.Scan(c.buf[c.seen:])
		if err != nil {
			return nil, err
		}
		c.seen += used
		if done {
			frame := c.buf[:c.seen:c.seen]
			c.buf, c.seen = c.buf[c.seen:], 0
			return frame, nil
		}
		if c.seen > most {
			return nil, resp.ErrFrame
		}
		c.buf = slices.Grow(c.buf, 4<<10)
		n, err := c.Read(c.buf[len(c.buf):cap(c.buf)])
		if n == 0 && err != nil {
			return nil, err
		}
		c.buf = c.buf[:len(c.buf)+n]
	}
}

// Text is Do for a command that answers with a text.
func (c *Conn) Text(words ...string) (string, error) {
	reply, err := c.Do(words...)
	text, ok := reply.(string)
	if err == nil && !ok {
		err = resp.ErrFrame
	}
	return text, err
}

// List is Do for a command that answers with a list.
func (c *Conn) List(words ...string) ([]any, error) {
	reply, err := c.Do(words...)
	list, ok := reply.([]any)
	if err == nil && !ok {
		err = resp.ErrFrame
	}
	return list, err
}

// open makes a Conn of a connection that connect opens and logIn authenticates. It blocks as long
// as ctx allows.
func open(ctx context.Context, addr string, connect func(ctx context.Context, addr string) (net.Conn, error),
	logIn func(ctx context.Context, conn net.Conn) error) (*Conn, error) {
	conn, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err = logIn(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return newConn(conn), nil
}

// ask runs f with a connection to addr that dial opens, for at most AskTimeout. The error names
// addr.
func ask(ctx context.Context, addr string, dial func(ctx context.Context, addr string) (*Conn, error),
	f func(*Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := dial(ctx, addr)
	if err == nil {
		stop := endWith(ctx, c)
		if err = f(c); !stop() && err != nil {
			err = context.Cause(ctx)
		}
		c.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return nil
}
