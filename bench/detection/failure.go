package detection

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// A failure is one way in which a holder can disappear.
type failure struct {
	name     string
	by       string // what releases the lock
	redisson bool   // whether Redisson's lock has to run out in this case
	// stage makes a client hold the lock.
	stage func(ctx context.Context, s *testbed, key string) (*trial, error)
}

// A trial is a failure whose holder has the lock.
type trial struct {
	far    *leashtest.Leash // where the next waiter waits
	atOnce bool             // the failure must happen right after the grant
	fail   func() error
	end    func() // restores everything; called after fail, or instead of it
}

// failures are the rows of the table, in their order.
func failures() []failure {
	return []failure{
		{"connection closed", "FIN", false, closed},
		{"kill -9", "FIN of the kernel", true, killed},
		{"connection reset", "the lease", false, reset},
		{"SIGSTOP, MAXHOLD", "MAXHOLD, from the grant on", true, stopped},
		{"host vanished, idle", "keepalives, then the lease", true, vanished},
		{"host vanished, a reply on its way", "age of the last ACK, then the lease", true, vanishedBusy},
		{"cable cut", "keepalives, then the lease", true, cut},
		{"Leash killed", "the lease", false, leashKilled},
		{"Redis killed, connection closed", "failover, then the release", true, redisKilled},
	}
}

// hold acquires the lock on a connection.
func hold(conn net.Conn, key string, options ...string) (*redistest.Client, error) {
	c := redistest.NewClient(conn)
	reply, err := c.Do(append([]string{"LOCK.ACQUIRE", key}, options...)...)
	if err == nil && reply[0] != ':' {
		err = fmt.Errorf("LOCK.ACQUIRE %s was answered %q", key, reply)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func holdAt(addr, key string, options ...string) (*redistest.Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return hold(conn, key, options...)
}

func closed(_ context.Context, s *testbed, key string) (*trial, error) {
	c, err := holdAt(s.near.Addr, key)
	if err != nil {
		return nil, err
	}
	return &trial{far: s.far, fail: c.Close, end: func() { c.Close() }}, nil
}

func reset(_ context.Context, s *testbed, key string) (*trial, error) {
	c, err := holdAt(s.near.Addr, key)
	if err != nil {
		return nil, err
	}
	if err := c.Conn().(*net.TCPConn).SetLinger(0); err != nil {
		return nil, err
	}
	return &trial{far: s.far, fail: c.Close, end: func() { c.Close() }}, nil
}

// HolderCommand is the first argument of a process that is a Holder. Holder's arguments follow.
const HolderCommand = "detection-holder"

// Holder runs in a process of its own. It holds the lock key through the Leash at addr until it is
// killed or has lost the lock.
func Holder(addr, key string, options ...string) error {
	c, err := holdAt(addr, key, options...)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("held")
	_, _ = c.Conn().Read(make([]byte, 1)) // returns when the connection ends
	return nil
}

// process starts a Holder and returns when it holds the lock.
func process(s *testbed, key string, options ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{HolderCommand, s.near.Addr, key}, options...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var word string
	if _, err := fmt.Fscanln(out, &word); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("a holder of %s ended at once", key)
	}
	return cmd, nil
}

func killed(_ context.Context, s *testbed, key string) (*trial, error) {
	cmd, err := process(s, key)
	if err != nil {
		return nil, err
	}
	return &trial{far: s.far, fail: cmd.Process.Kill, end: func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }}, nil
}

func stopped(_ context.Context, s *testbed, key string) (*trial, error) {
	cmd, err := process(s, key, "MAXHOLD", strconv.FormatInt(s.opt.MaxHold.Milliseconds(), 10))
	if err != nil {
		return nil, err
	}
	return &trial{
		far: s.far, atOnce: true,
		fail: func() error { return cmd.Process.Signal(syscall.SIGSTOP) },
		end:  func() { _ = cmd.Process.Kill(); _ = cmd.Wait() },
	}, nil
}

// hold acquires key from the LAN's host, through the Leash at the other end of the LAN.
func (l *lan) hold(key string) (*redistest.Client, error) {
	conn, err := l.dial(lanPort)
	if err != nil {
		return nil, err
	}
	return hold(conn, key)
}

func vanished(_ context.Context, s *testbed, key string) (*trial, error) {
	l := s.lans[lanIdle]
	c, err := l.hold(key)
	if err != nil {
		return nil, err
	}
	return &trial{far: s.far, fail: l.vanish, end: func() { c.Close(); _ = l.appear() }}, nil
}

// vanishedBusy: the reply to the last command comes after the host has vanished.
func vanishedBusy(_ context.Context, s *testbed, key string) (*trial, error) {
	l := s.lans[lanBusy]
	c, err := l.hold(key)
	if err != nil {
		return nil, err
	}
	list := "list:" + key
	if err := c.Send(redistest.Command("BLPOP", list, "0")); err != nil {
		return nil, err
	}
	fail := func() error {
		if err := l.vanish(); err != nil {
			return err
		}
		other, err := redistest.Dial(s.near.Addr)
		if err != nil {
			return err
		}
		defer other.Close()
		_, err = other.Do("LPUSH", list, "work")
		return err
	}
	return &trial{far: s.far, fail: fail, end: func() { c.Close(); _ = l.appear() }}, nil
}

func cut(_ context.Context, s *testbed, key string) (*trial, error) {
	l := s.lans[lanCut]
	c, err := l.hold(key)
	if err != nil {
		return nil, err
	}
	return &trial{far: s.far, fail: l.cut, end: func() { c.Close(); _ = l.reconnect() }}, nil
}

func leashKilled(ctx context.Context, s *testbed, key string) (*trial, error) {
	c, err := holdAt(s.toKill.Addr, key)
	if err != nil {
		return nil, err
	}
	return &trial{
		far:  s.far,
		fail: func() error { s.toKill.Kill(); return nil },
		// if this fails, the next round reports it
		end: func() { c.Close(); _ = s.toKill.Restart(ctx) },
	}, nil
}

// redisKilled starts a new cluster each time. It kills the master of the lock when the client
// closes.
func redisKilled(ctx context.Context, s *testbed, key string) (_ *trial, err error) {
	p := &trial{end: func() {}}
	defer func() {
		if err != nil {
			p.end()
		}
	}()
	later := func(f func()) {
		end := p.end
		p.end = func() { f(); end() }
	}
	cluster, err := redistest.LaunchCluster(redistest.ClusterOptions{Replicas: 1, NodeTimeout: s.opt.NodeTimeout})
	if err != nil {
		return nil, err
	}
	later(func() { _ = cluster.Close() })
	near, err := s.leash(ctx, cluster.Addrs())
	if err != nil {
		return nil, err
	}
	later(near.Kill)
	if p.far, err = s.leash(ctx, cluster.Addrs()); err != nil {
		return nil, err
	}
	later(p.far.Kill)
	c, err := holdAt(near.Addr, key)
	if err != nil {
		return nil, err
	}
	later(func() { c.Close() })
	master := cluster.MasterOf(redistest.Slot(key))
	if master == nil {
		return nil, fmt.Errorf("no master has %s", key)
	}
	p.fail = func() error {
		if err := master.Kill(); err != nil {
			return err
		}
		return c.Close()
	}
	return p, nil
}
