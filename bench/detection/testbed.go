package detection

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// The networks of the namespace, each with a host for one failure.
const (
	lanIdle = iota + 1
	lanBusy
	lanCut
	lanCount = 3
)

// lanPort is the port on which the holders' Leash listens for the hosts.
const lanPort = "6380"

// A testbed is Redis, the Leashes and the networks of a measurement.
type testbed struct {
	opt     Options
	dir     string
	near    *leashtest.Leash // of holders
	far     *leashtest.Leash // of the waiters
	toKill  *leashtest.Leash // of the holder whose Leash is killed
	lans    map[int]*lan
	closers []func() error // in the order in which things were started
}

// newTestbed starts a testbed in the namespace. If it fails, it ends what it has started.
func newTestbed(ctx context.Context, opt Options) (_ *testbed, err error) {
	s := &testbed{opt: opt, lans: make(map[int]*lan)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "leash-bench-"); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(s.dir) })
	network, err := here()
	if err != nil {
		return nil, err
	}
	if err := network.ip(nil, []string{"link", "set", "lo", "up"}); err != nil {
		return nil, err
	}
	listen := []string{}
	for n := 1; n <= lanCount; n++ {
		if s.lans[n], err = newLAN(network, n); err != nil {
			return nil, err
		}
		listen = append(listen, "--listen", net.JoinHostPort(s.lans[n].addr(0), lanPort))
	}
	redis, err := redistest.Launch(redistest.Options{})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, redis.Close)
	for _, l := range []**leashtest.Leash{&s.near, &s.far, &s.toKill} {
		if *l, err = s.leash(ctx, []string{redis.Addr}, listen...); err != nil {
			return nil, err
		}
		listen = nil // only the first Leash listens there
		s.closers = append(s.closers, func() error { (*l).Kill(); return nil })
	}
	return s, nil
}

// leash starts a Leash, which the caller ends.
func (s *testbed) leash(ctx context.Context, upstream []string, args ...string) (*leashtest.Leash, error) {
	return leashtest.Start(ctx, s.opt.Leash, s.dir, append(args, "--upstream", strings.Join(upstream, ","),
		"--watchdog-timeout", s.opt.TTL.String(), "--peer-timeout", s.opt.PeerTimeout.String())...)
}

// close ends everything, in the reverse order of starting.
func (s *testbed) close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
