package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leash/internal/certtest"
)

var flags = Flags{Cert: "tls-cert", Key: "tls-key", CA: "tls-client-ca"}

// serverOf makes a Source of a server, and its log.
func serverOf(t *testing.T, files Files) (*Source, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	s, err := Server(files, flags, tls.RequireAndVerifyClientCert, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// serial is the serial number of the certificate of a Source.
func serial(s *Source) string { return s.Config().Certificates[0].Leaf.SerialNumber.String() }

func TestSourceFollowsItsFiles(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil, "leash")
	s, log := serverOf(t, Files{Cert: pair.Cert, Key: pair.Key})
	first := serial(s)
	s.Reread()
	if serial(s) != first || log.Len() > 0 {
		t.Errorf("an unchanged pair: %s", log)
	}
	end := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	ca.Issue(t, func(c *x509.Certificate) { c.NotAfter = end }, "leash")
	s.Reread()
	if serial(s) == first || !s.Expiry().Equal(end) || s.Failures() != 0 {
		t.Errorf("the new pair is not used: %s", log)
	}
}

// TestSourceKeepsTheOldPair checks files that cannot be used: each is logged and counted once.
func TestSourceKeepsTheOldPair(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, other := ca.Issue(t, nil, "leash"), ca.Issue(t, nil, "other")
	s, log := serverOf(t, Files{Cert: pair.Cert, Key: pair.Key, CA: ca.CA})
	first := serial(s)
	key, err := os.ReadFile(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	wrongKey, err := os.ReadFile(other.Key)
	if err != nil {
		t.Fatal(err)
	}
	breaks := []func() error{
		func() error { return os.WriteFile(pair.Key, wrongKey, 0o600) },
		func() error { return os.WriteFile(pair.Key, []byte("nonsense"), 0o600) },
		func() error { return os.WriteFile(pair.Key, key[:len(key)/2], 0o600) },
		func() error { return os.Remove(pair.Key) },
		func() error { return os.WriteFile(ca.CA, nil, 0o600) },
	}
	for i, damage := range breaks {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.Reread()
		}
		if serial(s) != first || s.Failures() != int64(i+1) {
			t.Errorf("step %d: %d failures: %s", i, s.Failures(), log)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != len(breaks) {
		t.Errorf("%d errors in the log:\n%s", n, log)
	}
}

// TestSourceWarnsOfATimeThatIsNotNow checks a certificate whose time is over, or has not begun. It
// is used, with one warning at the start and one when it is read anew.
func TestSourceWarnsOfATimeThatIsNotNow(t *testing.T) {
	ca := certtest.NewAuthority(t)
	over := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }
	const warning = `level=WARN msg="this certificate of Leash is not valid now" cert=`
	pair := ca.Issue(t, over, "leash")
	s, log := serverOf(t, Files{Cert: pair.Cert, Key: pair.Key})
	s.Reread()
	if strings.Count(log.String(), warning+pair.Cert) != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("at the start: %s", log)
	}
	for _, change := range []func(*x509.Certificate){early, over} {
		log.Reset()
		first := serial(s)
		ca.Issue(t, change, "leash")
		s.Reread()
		s.Reread()
		if serial(s) == first || strings.Count(log.String(), warning) != 1 {
			t.Errorf("a new one: %s", log)
		}
	}
	log.Reset()
	ca.Issue(t, nil, "leash")
	s.Reread()
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("a good one: %s", log)
	}
}

func TestSourceRefusesToStart(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, other := ca.Issue(t, nil, "leash"), ca.Issue(t, nil, "other")
	for want, files := range map[string]Files{
		"--tls-cert: open nowhere: no such file":       {Cert: "nowhere", Key: pair.Key},
		"--tls-key: open nowhere: no such file":        {Cert: pair.Cert, Key: "nowhere"},
		"--tls-cert " + pair.Cert + ": tls: private":   {Cert: pair.Cert, Key: other.Key},
		"--tls-client-ca " + pair.Key + " has no cert": {Cert: pair.Cert, Key: pair.Key, CA: pair.Key},
	} {
		_, err := Server(files, flags, tls.NoClientCert, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestChangedAuthority checks that the line about new authorities names no end of a certificate,
// when there is none.
func TestChangedAuthority(t *testing.T) {
	ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	log := new(bytes.Buffer)
	s, err := Client(Files{CA: ca.CA}, flags, "redis", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(other.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca.CA, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reread()
	if !strings.HasSuffix(log.String(), `msg="read new certificates" ca=`+ca.CA+"\n") {
		t.Errorf("the log is %s", log)
	}
}

// TestRunRereads checks that a change is noticed within ten seconds, and at once when asked for.
func TestRunRereads(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil, "leash")
	s, _ := serverOf(t, Files{Cert: pair.Cert, Key: pair.Key})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wake := make(chan os.Signal, 1)
		go s.Run(ctx, wake)
		first := serial(s)
		ca.Issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Time{}, time.Time{} }, "leash")
		time.Sleep(10 * time.Second)
		second := serial(s)
		ca.Issue(t, nil, "leash")
		wake <- os.Interrupt
		synctest.Wait()
		if second == first || serial(s) == second {
			t.Error("a change was not noticed")
		}
	})
}

// TestClient checks the settings for a connection to a server.
func TestClient(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil, "leash")
	log := slog.New(slog.DiscardHandler)
	s, err := Client(Files{}, flags, "", log)
	if err != nil || s.Config().RootCAs != nil || len(s.Config().Certificates) != 0 || !s.Expiry().IsZero() {
		t.Errorf("without files: %v", err)
	}
	s, err = Client(Files{Cert: pair.Cert, Key: pair.Key, CA: ca.CA}, flags, "redis", log)
	if err != nil || !s.Config().RootCAs.Equal(ca.Pool) || len(s.Config().Certificates) != 1 || s.Config().ServerName != "redis" {
		t.Errorf("with files: %v", err)
	}
}
