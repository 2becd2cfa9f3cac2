package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/redistest"
)

// dropperCommand is the argument with which a run starts its dropper.
const dropperCommand = "dropper"

// A dropper opens and drops connections. It is a process of its own with the lowest priority. In a
// process with another client, its handshakes would delay that client more than Leash does.
type dropper struct {
	Addr, TLSAddr, CA string
	N, Rate           int // connections, and how many of them a second at most
	Strangers         int
	Seed              uint64

	tls *tls.Config
}

// drop runs a dropper for n connections, and waits for its end.
func (b *testbed) drop(opt options, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	settings, err := json.Marshal(dropper{Addr: b.leash.Addr, TLSAddr: b.tlsAddr, CA: b.ca, N: n, Rate: opt.rate,
		Strangers: opt.strangers, Seed: opt.seed})
	if err != nil {
		return err
	}
	out, err := exec.Command("nice", "-n", "19", self, dropperCommand, string(settings)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("dropper: %w\n%s", err, out)
	}
	return nil
}

// runDropper is the main function of a dropper.
func runDropper(settings string) error {
	d := &dropper{}
	if err := json.Unmarshal([]byte(settings), d); err != nil {
		return err
	}
	pem, err := os.ReadFile(d.CA)
	if err != nil {
		return err
	}
	d.tls = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	if !d.tls.RootCAs.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in " + d.CA)
	}
	return d.all()
}

// all opens the connections, and drops each in some state.
func (d *dropper) all() error {
	var dropping sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	failed := make(chan error, d.Strangers)
	for i := range d.Strangers {
		r := random(d.Seed, i)
		dropping.Go(func() {
			for i := next.Add(1); i <= int64(d.N); i = next.Add(1) {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(d.Rate))))
				if err := d.one(r); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	dropping.Wait()
	close(failed)
	return <-failed
}

func (d *dropper) dial(secure bool) (net.Conn, error) {
	if secure {
		return tls.Dial("tcp", d.TLSAddr, d.tls)
	}
	return net.Dial("tcp", d.Addr)
}

// states are what a connection has sent when it is dropped.
var states = []string{
	"", "*1\r\n$4\r\nPI", redistest.Command("PING"), redistest.Command("LOCK.ACQUIRE", "fuzz:lock", "BLOCK", "0"),
	redistest.Command("LOCK.ACQUIRE", "fuzz:lock", "FAIR", "BLOCK", "0"), redistest.Command("BLPOP", "fuzz:none", "0"),
	redistest.Command("SUBSCRIBE", "fuzz:news"), redistest.Command("MULTI") + redistest.Command("SET", "fuzz:k", "v"),
	redistest.Command("WATCH", "fuzz:k"), "*3\r\n$3\r\nSET\r\n$6\r\nfuzz:k\r\n$100000\r\nabc",
}

// one opens one connection and drops it.
func (d *dropper) one(r *rand.Rand) error {
	secure := r.IntN(2) == 0
	if secure && r.IntN(4) == 0 { // within the handshake
		raw, err := net.Dial("tcp", d.TLSAddr)
		if err != nil {
			return err
		}
		_, _ = raw.Write(hello()[:r.IntN(len(hello()))])
		return raw.Close()
	}
	conn, err := d.dial(secure)
	if err != nil {
		return err
	}
	_, _ = io.WriteString(conn, states[r.IntN(len(states))])
	if r.IntN(3) == 0 {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = conn.Read(make([]byte, 64))
	}
	if tcp, ok := conn.(*net.TCPConn); ok && r.IntN(2) == 0 {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close() // over TLS, Leash may have ended it first
	return nil
}
