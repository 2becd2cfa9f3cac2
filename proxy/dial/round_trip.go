package dial

import (
	"context"
	"net"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/proxy/resp"
)

// RoundTrip sends one command on a connection without calls in flight and reads its reply. The
// reply must be an error or begin with one of the marks. Without marks, any reply is accepted.
func RoundTrip(conn net.Conn, command []byte, marks string) ([]byte, error) {
	if _, err := conn.Write(command); err != nil {
		return nil, err
	}
	c := Conn{Conn: conn}
	reply, err := c.frame(maxSetUpReply)
	switch {
	case err != nil:
		return nil, err
	case len(c.buf) > 0, marks != "" && reply[0] != '-' && strings.IndexByte(marks, reply[0]) < 0:
		return nil, resp.ErrFrame
	}
	return reply, nil
}

func authCommand(user string, password []byte) []byte {
	return resp.AppendCommand(nil, "AUTH", user, string(password))
}

// EndWith ends reads and writes on conn when ctx is done. stop cancels that. It returns false if
// ctx was done before.
func EndWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, guard.Func(nil, "deadline", func() { _ = conn.SetDeadline(time.Unix(1, 0)) }))
}
