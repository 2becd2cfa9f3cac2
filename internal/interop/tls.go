package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"leash/internal/certtest"
	"leash/internal/redistest"
)

// hostname is the only name in the certificates of the Redis servers, which have no address.
const hostname = "localhost"

// security is what both sides of a Leash speak TLS with. A nil one is none.
type security struct {
	redis *redistest.TLS
	leash []string // flags, without the address
	// env makes the programs use TLS, and their libraries trust the certificates.
	env []string
}

// newSecurity writes its files into dir.
func newSecurity(ctx context.Context, dir string) (*security, error) {
	ca, err := certtest.Make(dir)
	if err != nil {
		return nil, err
	}
	redis, err := ca.Sign(nil, hostname)
	if err != nil {
		return nil, err
	}
	leash, err := ca.Sign(nil)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "java.p12")
	cmd := exec.CommandContext(ctx, "keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca.CA,
		"-keystore", store, "-storetype", "PKCS12", "-storepass", "interop")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("keytool: %w\n%s", err, out)
	}
	return &security{
		redis: &redistest.TLS{CA: ca.CA, Cert: redis.Cert, Key: redis.Key, Config: &tls.Config{RootCAs: ca.Pool, ServerName: hostname}},
		leash: []string{"--tls-cert", leash.Cert, "--tls-key", leash.Key, "--upstream-tls", "--upstream-tls-ca", ca.CA},
		env: append(os.Environ(), "INTEROP_TLS=yes", "SSL_CERT_FILE="+ca.CA, "NODE_EXTRA_CA_CERTS="+ca.CA,
			"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore="+store+" -Djavax.net.ssl.trustStorePassword=interop"),
	}, nil
}

// sentinelFlags are for a Leash whose sentinels give the addresses of servers without their names.
func (s *security) sentinelFlags(group string) []string {
	return []string{"--sentinel-master", group, "--sentinel-tls", "--sentinel-tls-server-name", hostname,
		"--upstream-tls-server-name", hostname}
}

// redisTLS is for redistest.
func (s *security) redisTLS() *redistest.TLS {
	if s == nil {
		return nil
	}
	return s.redis
}

// redisArgs are arguments of redis-server.
func (s *security) redisArgs() []string {
	if s == nil {
		return nil
	}
	return []string{"--tls-auth-clients", "no",
		"--cluster-announce-hostname", hostname, "--cluster-preferred-endpoint-type", "hostname"}
}

// addresses is the value of Leash's --upstream for these servers.
func (s *security) addresses(addrs ...string) string {
	list := strings.Join(addrs, ",")
	if s == nil {
		return list
	}
	return strings.ReplaceAll(list, "127.0.0.1:", hostname+":")
}

// environ is the environment of the programs; nil is that of this process.
func (s *security) environ() []string {
	if s == nil {
		return nil
	}
	return s.env
}
