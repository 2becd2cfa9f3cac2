package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	// of each read and write of a Client, unless its Timeout is set
	replyTimeout = 30 * time.Second
	maxLength    = 1 << 31 // of an aggregate or a bulk; Redis itself sends less
)

// Client is a plain RESP connection, RESP2 or RESP3. It sends bytes and returns complete replies as
// the bytes that came. Tests use it to compare replies byte by byte. It is not safe for concurrent
// use, except that one goroutine may send while another reads.
type Client struct {
	// Timeout bounds each read of a reply and each write; if zero, 30 s.
	Timeout time.Duration

	conn net.Conn
	r    *bufio.Reader
}

// Dial connects to a RESP server at a TCP address.
func Dial(addr string) (*Client, error) {
	conn, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

// NewClient makes a Client that owns the connection.
func NewClient(conn net.Conn) *Client {
	return &Client{conn: conn, r: bufio.NewReader(conn)}
}

// Conn is the underlying connection, for example to reset it. Reading from it loses replies.
func (c *Client) Conn() net.Conn { return c.conn }

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) deadline() time.Time {
	if c.Timeout == 0 {
		return time.Now().Add(replyTimeout)
	}
	return time.Now().Add(c.Timeout)
}

// Send writes raw bytes, complete commands or not.
func (c *Client) Send(raw string) error {
	if err := c.conn.SetWriteDeadline(c.deadline()); err != nil {
		return err
	}
	_, err := io.WriteString(c.conn, raw)
	return err
}

// Do sends one command and returns the next reply as raw bytes. An error reply is a reply; err is
// for the connection. In RESP3 the next reply may be a push.
func (c *Client) Do(args ...string) (string, error) {
	if err := c.Send(Command(args...)); err != nil {
		return "", err
	}
	return c.Read()
}

// Command encodes one command as RESP.
func Command(args ...string) string {
	b := appendHeader(nil, '*', len(args))
	for _, arg := range args {
		b = appendHeader(b, '$', len(arg))
		b = append(b, arg...)
		b = append(b, "\r\n"...)
	}
	return string(b)
}

func appendHeader(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

// Read returns the next complete reply as raw bytes, nested replies included. A RESP3 attribute
// comes together with its reply. If the server has closed the connection, the error is io.EOF, or
// io.ErrUnexpectedEOF within a reply. Read then also returns the part of the reply that came.
func (c *Client) Read() (string, error) {
	if err := c.conn.SetReadDeadline(c.deadline()); err != nil {
		return "", err
	}
	var frame bytes.Buffer
	err := c.readFrame(&frame)
	if err == io.EOF && frame.Len() > 0 {
		err = io.ErrUnexpectedEOF
	}
	return frame.String(), err
}

// AwaitEnd waits until the server has ended the connection. It returns an error if the server sends
// something first, or does not end it in time.
func (c *Client) AwaitEnd() error {
	frame, err := c.Read()
	if err == nil {
		return fmt.Errorf("got %q, want the connection ended", frame)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// readFrame appends one frame to dst, or the part of it that came.
func (c *Client) readFrame(dst *bytes.Buffer) error {
	line, err := c.r.ReadSlice('\n')
	dst.Write(line)
	if err != nil {
		if err == bufio.ErrBufferFull {
			return c.readFrameRest(dst)
		}
		return err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return fmt.Errorf("redistest: malformed reply line %q", line)
	}
	kind := line[0]
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return fmt.Errorf("redistest: unknown reply type in %q", line)
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n > maxLength {
		return fmt.Errorf("redistest: malformed reply length %q", line)
	}
	if n < 0 {
		return nil // RESP2's nil
	}
	switch kind {
	case '$', '=', '!':
		_, err := io.CopyN(dst, c.r, int64(n)+2)
		return err
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // and the reply that it is about
	}
	for range n {
		if err := c.readFrame(dst); err != nil {
			return err
		}
	}
	return nil
}

// readFrameRest reads the rest of a line that is longer than the buffer.
func (c *Client) readFrameRest(dst *bytes.Buffer) error {
	for {
		line, err := c.r.ReadSlice('\n')
		dst.Write(line)
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// Reply sends one command and returns its raw reply. It ends the test if there is none.
func (c *Client) Reply(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%.80q: %v", args, err)
	}
	return reply
}

// Want sends one command and ends the test if its raw reply is another one.
func (c *Client) Want(t testing.TB, reply string, args ...string) {
	t.Helper()
	if got := c.Reply(t, args...); got != reply {
		t.Fatalf("%.80q: got %.200q, want %.200q", args, got, reply)
	}
}
