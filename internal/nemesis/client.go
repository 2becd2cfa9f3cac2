package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// client is a connection of a worker. It belongs to this process or to a process of its own.
type client struct {
	*redistest.Client
	process *process // nil for this process
	leash   string   // the Leash that it is connected to, for reports
}

func (c *client) String() string {
	if c.process != nil {
		return "a process of its own at " + c.leash
	}
	return fmt.Sprintf("%v at %s", c.Conn().LocalAddr(), c.leash)
}

// do sends a command. It waits for the reply until the given time.
func (c *client) do(until time.Time, args ...string) (reply string, sent time.Time, err error) {
	c.Timeout = max(time.Until(until), time.Millisecond)
	sent = time.Now()
	reply, err = c.Do(args...)
	return strings.TrimSuffix(reply, "\r\n"), sent, err
}

// ended reports whether the other side has ended the connection. It stands for a client that reads
// all the time and so would see the end at once.
func (c *client) ended() (yes bool) {
	socket, ok := c.Conn().(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		yes = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return yes || err != nil
}

// dial connects to a random Leash. If that fails, it waits for a moment and returns nil.
func (w *worker) dial() *client {
	i := w.rnd.IntN(len(w.bed.fronts))
	if w.rnd.IntN(12) == 0 {
		if p, conn, err := startProcess(w.bed.fronts[i].Addr()); err == nil {
			w.bed.processes.add(p)
			return &client{redistest.NewClient(conn), p, history.LeashName(i)}
		}
	}
	c, err := w.bed.dial(i)
	if err != nil {
		w.tally.Add("connect", "refused")
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	return c
}

// dial connects to the Leash with an index.
func (b *testbed) dial(i int) (*client, error) {
	c, err := redistest.Dial(b.fronts[i].Addr())
	if err != nil {
		return nil, err
	}
	return &client{c, nil, history.LeashName(i)}, nil
}

// leave ends a connection. It closes the connection, sometimes by RST, or it kills the client's
// process with kill -9.
func (w *worker) leave(c *client) {
	if c.process != nil {
		w.bed.processes.remove(c.process)
		if w.rnd.IntN(2) == 0 {
			c.process.kill()
			w.tally.Add("leave", "kill -9")
		}
		_ = c.Close()
		c.process.kill() // it may be stopped and would not end by itself
		return
	}
	if tcp, ok := c.Conn().(*net.TCPConn); ok && w.rnd.IntN(8) == 0 {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
