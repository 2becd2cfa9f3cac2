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
// reply must be an error or begin with one of the marks. Without marks, any reply is accepted. It
// blocks as long as ctx allows. After an error, the connection cannot be used any more.
func RoundTrip(ctx context.Context, conn net.Conn, command []byte, marks string) ([]byte, error) {
	stop := endWith(ctx, conn)
	defer stop()
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
	case !stop():
		return nil, context.Cause(ctx) // the deadline of conn may be set
	}
	return reply, nil
}

func authCommand(user string, password []byte) []byte {
	return resp.AppendCommand(nil, "AUTH", user, string(password))
}

// endWith ends reads and writes on conn when ctx is done. stop cancels that. It returns false if
// ctx was done before.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, guard.Func(nil, "deadline", func() { _ = conn.SetDeadline(time.Unix(1, 0)) }))
}
