package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Files names the files of a Source, in PEM.
type Files struct {
	Cert, Key string // a certificate with its chain, and its key; both empty: none
	CA        string // the authorities that sign the other side's certificates; empty: see the user
}

// settings is what a Source has made of its files.
type settings struct {
	config *tls.Config
	expiry time.Time // of the certificate; zero: there is none
	raw    contents
}

// contents is the text of the three files.
type contents struct{ cert, key, ca string }

// Source has TLS settings that follow their files. It is safe for concurrent use.
type Source struct {
	files    Files
	flags    Flags
	build    func(pair *tls.Certificate, authorities *x509.CertPool) *tls.Config
	log      *slog.Logger
	current  atomic.Pointer[settings]
	failures atomic.Int64
	refused  contents // Reread has refused these last
}

// Flags are the names of the flags that give the files, for errors.
type Flags struct{ Cert, Key, CA string }

// Server makes a Source for the side that is connected to. auth says whether a client must show a
// certificate. Without authorities, none is asked for.
func Server(files Files, flags Flags, auth tls.ClientAuthType, log *slog.Logger) (*Source, error) {
	return newSource(files, flags, log, func(pair *tls.Certificate, authorities *x509.CertPool) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{*pair}}
		if authorities != nil {
			c.ClientAuth, c.ClientCAs = auth, authorities
		}
		return c
	})
}

// Client makes a Source for the side that connects. Without authorities, it trusts those of the
// system. name is the name that the server's certificate must have; if empty, it is the host of the
// address.
func Client(files Files, flags Flags, name string, log *slog.Logger) (*Source, error) {
	return newSource(files, flags, log, func(pair *tls.Certificate, authorities *x509.CertPool) *tls.Config {
		c := &tls.Config{RootCAs: authorities, ServerName: name}
		if pair != nil {
			c.Certificates = []tls.Certificate{*pair}
		}
		return c
	})
}

func newSource(files Files, flags Flags, log *slog.Logger, build func(*tls.Certificate, *x509.CertPool) *tls.Config) (*Source, error) {
	s := &Source{files: files, flags: flags, build: build, log: log}
	raw, err := s.read()
	if err != nil {
		return nil, err
	}
	made, err := s.make(raw)
	if err != nil {
		return nil, err
	}
	s.use(made)
	return s, nil
}

// use makes new connections use these settings. A certificate that has expired or is not valid yet
// is used too, because the clock may be wrong. The other side decides.
func (s *Source) use(made *settings) {
	s.current.Store(made)
	now := time.Now()
	for _, pair := range made.config.Certificates {
		if now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
			s.log.Warn("this certificate of Leash is not valid now", "cert", s.files.Cert,
				"begins", pair.Leaf.NotBefore, "expires", pair.Leaf.NotAfter)
		}
	}
}

// Config returns the newest settings. The caller must not change them.
func (s *Source) Config() *tls.Config { return s.current.Load().config }

// Expiry returns when the certificate ends. It is zero if there is none.
func (s *Source) Expiry() time.Time { return s.current.Load().expiry }

// Failures returns how often changed files could not be used.
func (s *Source) Failures() int64 { return s.failures.Load() }

// rereadInterval is the time between two looks at the files.
const rereadInterval = 5 * time.Second

// Run reads the files again, every few seconds and when wake gets a value, until ctx is done.
func (s *Source) Run(ctx context.Context, wake <-chan os.Signal) { follow(ctx, wake, s.Reread) }

// follow calls reread every rereadInterval and when wake gets a value, until ctx is done.
func follow(ctx context.Context, wake <-chan os.Signal, reread func()) {
	tick := time.NewTicker(rereadInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
		}
		reread()
	}
}

// Reread makes new settings if the files have changed. Only one goroutine may call it at a time.
// Connections that exist keep their settings.
func (s *Source) Reread() {
	raw, err := s.read()
	if err == nil && raw == s.current.Load().raw {
		s.refused = contents{}
		return
	}
	var made *settings
	if err == nil {
		made, err = s.make(raw)
	}
	switch {
	case err == nil:
		s.refused = contents{}
		var about []any
		if s.files.Cert != "" {
			about = append(about, "cert", s.files.Cert, "expires", made.expiry)
		}
		if s.files.CA != "" {
			about = append(about, "ca", s.files.CA)
		}
		s.log.Info("read new certificates", about...)
		s.use(made)
	case raw != s.refused:
		s.refused = raw
		s.failures.Add(1)
		s.log.Error("changed certificates cannot be used, keeping the old ones", "err", err)
	}
}

// unreadable stands for a file that cannot be read.
const unreadable = "\x00unreadable"

// read returns the files' contents. With an error, they tell one failure from another.
func (s *Source) read() (raw contents, err error) {
	read := func(path, flag string) string {
		if path == "" {
			return ""
		}
		b, failure := os.ReadFile(path)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("--%s: %w", flag, failure))
			return unreadable
		}
		return string(b)
	}
	raw = contents{cert: read(s.files.Cert, s.flags.Cert), key: read(s.files.Key, s.flags.Key), ca: read(s.files.CA, s.flags.CA)}
	return raw, err
}

func (s *Source) make(raw contents) (*settings, error) {
	made := &settings{raw: raw}
	var pair *tls.Certificate
	if s.files.Cert != "" {
		p, err := tls.X509KeyPair([]byte(raw.cert), []byte(raw.key))
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", s.flags.Cert, s.files.Cert, err)
		}
		pair, made.expiry = &p, p.Leaf.NotAfter
	}
	var authorities *x509.CertPool
	if s.files.CA != "" {
		authorities = x509.NewCertPool()
		if !authorities.AppendCertsFromPEM([]byte(raw.ca)) {
			return nil, fmt.Errorf("--%s %s has no certificate in it: give a file in PEM", s.flags.CA, s.files.CA)
		}
	}
	made.config = s.build(pair, authorities)
	return made, nil
}
