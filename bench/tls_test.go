package main

import (
	"crypto/tls"
	"testing"
	"time"

	"leash/internal/certtest"
	"leash/internal/redistest"
)

// TestLoadTLS runs loads against a Redis that speaks TLS only: small batches, and such as are
// larger than a record and any socket buffer.
func TestLoadTLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil)
	config := &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}
	s, err := redistest.Launch(redistest.Options{Args: []string{"--tls-auth-clients", "no"},
		TLS: &redistest.TLS{CA: ca.CA, Cert: pair.Cert, Key: pair.Key, Config: config}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, size := range []int{64, 256 << 10} {
		l := testLoad(s.Addr)
		l.routes[0].tls, l.pipeline, l.valueSize, l.clients, l.round = config, 8, size, 2, time.Second
		sample, err := l.run(t.Context(), func() error { return nil })
		if err != nil || sample.commands == 0 || sample.commands != l.pipeline*int(sample.latency.total) {
			t.Fatalf("values of %d bytes: %v, or too few commands", size, err)
		}
	}
	l := testLoad(s.Addr)
	l.routes[0].tls = &tls.Config{ServerName: "127.0.0.1"}
	if _, err := l.run(t.Context(), func() error { return nil }); err == nil {
		t.Error("a certificate of an unknown authority is accepted")
	}
}
