package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leash/internal/certtest"
)

// usersFile writes a file of users.
func usersFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "users")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// verified is the state of a client whose certificate has been verified.
func verified(t *testing.T, change func(*x509.Certificate)) tls.ConnectionState {
	t.Helper()
	leaf := certtest.NewAuthority(t).Issue(t, change, "app").Load(t).Leaf
	chain := []*x509.Certificate{leaf}
	return tls.ConnectionState{PeerCertificates: chain, VerifiedChains: [][]*x509.Certificate{chain}}
}

func TestNames(t *testing.T) {
	uris := func(texts ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, text := range texts {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				c.URIs = append(c.URIs, u)
			}
		}
	}
	again := func(c *x509.Certificate) {
		c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "app"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"}}
	}
	unverified := verified(t, nil)
	unverified.VerifiedChains = nil
	for name, c := range map[string]struct {
		from  string
		state tls.ConnectionState
		want  []string
	}{
		"common name":             {UserFromCN, verified(t, uris("spiffe://a/b")), []string{"app"}},
		"no common name":          {UserFromCN, verified(t, func(c *x509.Certificate) { c.Subject = pkix.Name{} }), nil},
		"two common names":        {UserFromCN, verified(t, again), nil},
		"URIs":                    {UserFromURI, verified(t, uris("spiffe://a/b", "urn:c")), []string{"spiffe://a/b", "urn:c"}},
		"no URI":                  {UserFromURI, verified(t, nil), nil},
		"nothing":                 {UserFromNone, verified(t, uris("urn:c")), nil},
		"not verified":            {UserFromCN, unverified, nil},
		"no certificate":          {UserFromCN, tls.ConnectionState{}, nil},
		"no certificate, by URIs": {UserFromURI, tls.ConnectionState{}, nil},
	} {
		if got := Names(c.state, c.from); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestUsersOf(t *testing.T) {
	path := usersFile(t, "# users\n\napp  a password with spaces\r\nurn:b pw\n")
	u, err := NewUsers(path, UserFromCN, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	user, password, ok := u.Of(verified(t, nil))
	if user != "app" || password != " a password with spaces" || !ok {
		t.Errorf("got %q %q %v", user, password, ok)
	}
	other := verified(t, func(c *x509.Certificate) { c.Subject.CommonName = "App" })
	if user, _, ok := u.Of(other); ok {
		t.Errorf("got %q", user)
	}
	u, err = NewUsers(path, UserFromURI, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	several := verified(t, func(c *x509.Certificate) {
		c.URIs = []*url.URL{{Scheme: "urn", Opaque: "a"}, {Scheme: "urn", Opaque: "b"}}
	})
	if user, password, _ := u.Of(several); user != "urn:b" || password != "pw" {
		t.Errorf("got %q %q", user, password)
	}
}

// TestUsersFileIsRefused checks that an error names the line and has nothing of its text.
func TestUsersFileIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"line 2 is not a user, a space and a password":                        "a b\nsecret",
		"line 1 is not a user, a space and a password":                        " secret",
		"line 3 is not a user, a space and a password":                        "\n\nsecret ",
		"line 1 is not a user, a space and a password\x00":                    "a\tb secret",
		"line 2 names a user again: name each user once":                      "a secret\na secret",
		"names no user: give a user and a password in each line":              "# nobody\n",
		"bufio.Scanner: token too long":                                       "secret " + strings.Repeat("x", 1<<20),
		"names no user: give a user and a password in each line" + "\x00here": "",
	} {
		want, _, _ = strings.Cut(want, "\x00")
		_, err := NewUsers(usersFile(t, text), UserFromCN, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), "--tls-users-file ") || !strings.HasSuffix(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	_, err := NewUsers("nowhere", UserFromCN, slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "--tls-users-file: open nowhere: ") {
		t.Errorf("got %v", err)
	}
}

// TestUsersFollowTheirFile checks that a changed file is read within ten seconds, and that a
// damaged one is logged once and changes nothing.
func TestUsersFollowTheirFile(t *testing.T) {
	path, state := usersFile(t, "app first"), verified(t, nil)
	var log bytes.Buffer
	u, err := NewUsers(path, UserFromCN, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go u.Run(ctx, nil)
		for i, c := range []struct{ text, want string }{
			{"app second", "second"}, {"secret", "second"}, {"secret", "second"}, {"app third", "third"}, {"app third", "third"},
		} {
			write(t, path, c.text)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if _, got, _ := u.Of(state); got != c.want {
				t.Errorf("step %d: got %q, want %q", i, got, c.want)
			}
		}
	})
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d errors: %s", n, fmt.Sprint(&log))
	}
}
