package redistest

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	firstPort  = 10000
	portCount  = 10000
	busOffset  = 10000 // the cluster bus listens at the client port + 10000
	portTrials = 200
)

// port is a TCP port of 127.0.0.1 with a claim on it. The claim is a name that only one process can
// hold at a time. Other processes that use this package do not use the port, even while its server
// is down.
type port struct {
	number int
	claim  io.Closer
}

func (p *port) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// release ends the claim. It may be called more than once.
func (p *port) release() {
	_ = p.claim.Close()
}

// claimPort finds a port that is free and whose bus port is free. A program that does not use this
// package may still take it before Redis does. The caller then tries another port.
func claimPort() (*port, error) {
	for range portTrials {
		n := firstPort + rand.IntN(portCount)
		claim, err := claimName(n)
		if err != nil {
			continue
		}
		if isFree(n) && isFree(n+busOffset) {
			return &port{number: n, claim: claim}, nil
		}
		_ = claim.Close()
	}
	return nil, errors.New("redistest: no free port found")
}

var reserved struct {
	mu  sync.Mutex
	all []*port
}

// ReserveAddr returns an address of 127.0.0.1 with a free port, for a program that is started there
// more than once. While this process runs, no other process that uses this package takes the port.
func ReserveAddr() (string, error) {
	p, err := claimPort()
	if err != nil {
		return "", err
	}
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	reserved.all = append(reserved.all, p)
	return p.addr(), nil
}

func isFree(n int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}
