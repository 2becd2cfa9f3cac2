package locktest

import (
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script/transport"
)

// StartFaulty returns a Leash whose connections to Redis go through a fault proxy, and another one
// without it.
func StartFaulty(t *testing.T, cfg lockcmd.Config, prepare ...func(*lockcmd.Service)) (s, straight *lockcmd.Service,
	p *faultproxy.Proxy) {
	t.Helper()
	server := redistest.SharedServer(t)
	p, err := faultproxy.New(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s = Start(t, DialServer(t, p.Addr()), cfg, prepare...)
	return s, Start(t, DialServer(t, server.Addr), cfg, prepare...), p
}

// ShortTimeout is an UpstreamTimeout that a test lets pass. A busy machine does all else within it.
const ShortTimeout = 3 * time.Second

// Drop returns a fault that loses a command, after or before Redis runs it.
func Drop(p *faultproxy.Proxy, ran bool) func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault {
	if ran {
		return p.DropAfter
	}
	return p.DropBefore
}

// Running matches a script of Leash on a key, in whatever form it is sent.
func Running(sc *transport.Script, key string) faultproxy.Match {
	return func(request []byte) bool {
		args := faultproxy.Args(request)
		return len(args) > 3 && (string(args[1]) == sc.SHA || string(args[1]) == sc.Source) && string(args[3]) == key
	}
}
