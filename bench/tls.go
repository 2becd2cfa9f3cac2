package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/certtest"
)

// certificates are what the servers with TLS show.
type certificates struct {
	certtest.Pair
	client *tls.Config
}

func (b *relays) certificates() (certificates, error) {
	ca, err := certtest.Make(b.Dir)
	if err != nil {
		return certificates{}, err
	}
	pair, err := ca.Sign(nil)
	return certificates{Pair: pair, client: &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}}, err
}

// startTLS starts what speaks TLS in front of a Redis. Each also has a port without TLS, where it
// is asked whether it is ready.
func (b *relays) startTLS(ctx context.Context, opt options, redisAddr string, redis []int) error {
	certs, err := b.certificates()
	if err != nil {
		return err
	}
	for _, t := range []struct {
		name  string
		start func(context.Context, options, string, string, certificates) (*testbed.Child, error)
	}{{toHAProxyTLS, b.startHAProxyTLS}, {toLeashTLS, b.startLeashTLS}} {
		if !opt.wants(t.name) {
			continue
		}
		port, err := testbed.FreePort()
		if err != nil {
			return err
		}
		addr := "127.0.0.1:" + strconv.Itoa(port)
		c, err := t.start(ctx, opt, addr, redisAddr, certs)
		if err != nil {
			return err
		}
		b.targets = append(b.targets, target{name: t.name, routes: []load.Route{{Addr: addr, TLS: certs.client}}, proxies: []int{c.PID()}, redis: redis})
	}
	return nil
}

func (b *relays) startLeashTLS(ctx context.Context, opt options, addr, redisAddr string, certs certificates) (*testbed.Child, error) {
	return b.StartChild(ctx, opt.leash, func(port int) ([]string, error) {
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

func (b *relays) startHAProxyTLS(ctx context.Context, _ options, addr, redisAddr string, certs certificates) (*testbed.Child, error) {
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
	pem := filepath.Join(b.Dir, "haproxy.pem")
	if err := os.WriteFile(pem, both, 0o600); err != nil {
		return nil, err
	}
	return b.StartChild(ctx, path, func(port int) ([]string, error) {
		file := filepath.Join(b.Dir, fmt.Sprintf("haproxy-%d.cfg", port))
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
