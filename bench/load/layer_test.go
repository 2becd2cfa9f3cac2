package load

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
		l.Routes[0].TLS, l.Pipeline, l.ValueSize, l.Clients, l.Round = config, 8, size, 2, time.Second
		sample, err := l.Run(t.Context(), func() error { return nil })
		if err != nil || sample.Commands == 0 || sample.Commands != l.Pipeline*int(sample.latency.Total) {
			t.Fatalf("values of %d bytes: %v, or too few commands", size, err)
		}
	}
	l := testLoad(s.Addr)
	l.Routes[0].TLS = &tls.Config{ServerName: "127.0.0.1"}
	if _, err := l.Run(t.Context(), func() error { return nil }); err == nil {
		t.Error("a certificate of an unknown authority is accepted")
	}
}
