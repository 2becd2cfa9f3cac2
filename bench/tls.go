package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"leash/internal/certtest"
)

// A layer encrypts and decrypts for a client that does its socket calls itself. It suits only
// exchangers that send nothing while a batch is in flight.
type layer struct {
	conn *tls.Conn
	wire *wire
	buf  []byte
}

// wire is what the connection of a layer reads and writes: the socket during the handshake, and
// then the buffers.
type wire struct {
	net.Conn
	buffered bool
	in, out  []byte
}

// errDry means that all that has come is decrypted. For package tls it is a time-out, after which
// it can go on.
type errDry struct{}

func (errDry) Error() string   { return "nothing more has come" }
func (errDry) Timeout() bool   { return true }
func (errDry) Temporary() bool { return true }

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	if !w.buffered {
		return w.Conn.Read(p)
	}
	if len(w.in) == 0 {
		return 0, errDry{}
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if !w.buffered {
		return w.Conn.Write(p)
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// handshake blocks until TLS is agreed on.
func handshake(conn net.Conn, config *tls.Config) (*layer, error) {
	w := &wire{Conn: conn}
	l := &layer{conn: tls.Client(w, config), wire: w, buf: make([]byte, 16<<10)}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	if err := l.conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	w.buffered = true
	return l, nil
}

// encrypt appends what to send for plain to dst.
func (l *layer) encrypt(dst, plain []byte) ([]byte, error) {
	l.wire.out = dst
	_, err := l.conn.Write(plain)
	return l.wire.out, err
}

// decrypt gives what has come to receive, and returns its last answer.
func (l *layer) decrypt(came []byte, receive func([]byte) (bool, error)) (complete bool, err error) {
	l.wire.in = came
	for {
		n, err := l.conn.Read(l.buf)
		if n > 0 {
			if complete, err = receive(l.buf[:n]); err != nil {
				return false, err
			}
			continue
		}
		if errors.As(err, &errDry{}) {
			return complete, nil
		}
		return false, err
	}
}

// certificates are what the servers with TLS show.
type certificates struct {
	certtest.Pair
	client *tls.Config
}

func (b *testbed) certificates() (certificates, error) {
	ca, err := certtest.Make(b.dir)
	if err != nil {
		return certificates{}, err
	}
	pair, err := ca.Sign(nil)
	return certificates{Pair: pair, client: &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}}, err
}

// startTLS starts what speaks TLS in front of a Redis. Each also has a port without TLS, where it
// is asked whether it is ready.
func (b *testbed) startTLS(ctx context.Context, opt options, redisAddr string, redis []int) error {
	certs, err := b.certificates()
	if err != nil {
		return err
	}
	for _, t := range []struct {
		name  string
		start func(context.Context, options, string, string, certificates) (*child, error)
	}{{toHAProxyTLS, b.startHAProxyTLS}, {toLeashTLS, b.startLeashTLS}} {
		if !opt.wants(t.name) {
			continue
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		addr := "127.0.0.1:" + strconv.Itoa(port)
		c, err := t.start(ctx, opt, addr, redisAddr, certs)
		if err != nil {
			return err
		}
		b.targets = append(b.targets, target{name: t.name, routes: []route{{addr: addr, tls: certs.client}}, proxies: []int{c.pid()}, redis: redis})
	}
	return nil
}

func (b *testbed) startLeashTLS(ctx context.Context, opt options, addr, redisAddr string, certs certificates) (*child, error) {
	return b.startChild(ctx, opt.leash, func(port int) ([]string, error) {
		return []string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", redisAddr,
			"--tls-listen", addr, "--tls-cert", certs.Cert, "--tls-key", certs.Key}, nil
	})
}

// haproxyConfig ends TLS in front of a Redis, in one thread as in Leash. The values are the port
// without TLS, the address with TLS, the file with certificate and key, and Redis's address.
const haproxyConfig = `global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 1m
  timeout server 1m
listen bench
  bind 127.0.0.1:%d
  bind %s ssl crt %s
  server redis %s
`

func (b *testbed) startHAProxyTLS(ctx context.Context, _ options, addr, redisAddr string, certs certificates) (*child, error) {
	path, err := findHAProxy()
	if err != nil {
		return nil, err
	}
	var both []byte
	for _, file := range []string{certs.Cert, certs.Key} {
		part, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		both = append(both, part...)
	}
	pem := filepath.Join(b.dir, "haproxy.pem")
	if err := os.WriteFile(pem, both, 0o600); err != nil {
		return nil, err
	}
	return b.startChild(ctx, path, func(port int) ([]string, error) {
		file := filepath.Join(b.dir, fmt.Sprintf("haproxy-%d.cfg", port))
		text := fmt.Sprintf(haproxyConfig, port, addr, pem, redisAddr)
		return []string{"-db", "-f", file}, os.WriteFile(file, []byte(text), 0o600)
	})
}

// findHAProxy also looks in Debian's directory for it, which is not on every user's PATH.
func findHAProxy() (string, error) {
	if path, err := exec.LookPath("haproxy"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/haproxy")
}
