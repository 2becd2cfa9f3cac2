package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// errorOfUsers matches all errors about a file of users, which never repeat its text.
var errorOfUsers = regexp.MustCompile(`^--tls-users-file FILE(: line \d+ is not a user, a space and a password` +
	`|: line \d+ names a user again: name each user once|: bufio\.Scanner: token too long` +
	`| names no user: give a user and a password in each line)$`)

// FuzzUsers checks that a file of users that is written again has the same users.
func FuzzUsers(f *testing.F) {
	for _, text := range []string{
		"app secret\n", "# comment\r\n\r\nspiffe://a/b pass word \r\nb  x", "app", " x", "a b\na c", "a b\r\r\nc d\r", "a\tb c", "\x00 \xff", "#",
	} {
		f.Add(text)
	}
	u := &Users{path: "FILE", log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, text string) {
		users, err := u.parse(text)
		if err != nil {
			if !errorOfUsers.MatchString(err.Error()) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var again strings.Builder
		for user, password := range users {
			if user == "" || password == "" || strings.Contains(user, " ") {
				t.Errorf("%q: user %q, password %q", text, user, password)
			}
			again.WriteString(user + " " + password + "\r\n")
		}
		if got, err := u.parse(again.String()); err != nil || !maps.Equal(got, users) {
			t.Errorf("%q: %q, written again %q, %v", text, users, got, err)
		}
	})
}

// FuzzCertificateNames makes certificates with any names. A certificate gets the user of its only
// common name or of one of its URIs, and no other user.
func FuzzCertificateNames(f *testing.F) {
	f.Add("app", "", "spiffe://cluster/app", "app")
	f.Add("app", "admin", "urn:a", "admin")
	f.Add("", "app", "a%2fb", "app")
	f.Add("a\x00b", "", "://", "a")
	f.Add("\u00c4pp", "", "HTTP://A/%41", "http://A/%41")
	f.Fuzz(func(t *testing.T, cn, more, uri, user string) {
		cert := &x509.Certificate{Subject: subject(cn, more)}
		if u, err := url.Parse(uri); err == nil {
			cert.URIs = append(cert.URIs, u)
		}
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		for _, from := range []string{UserFromCN, UserFromURI, UserFromNone} {
			state.VerifiedChains = nil
			if names := Names(state, from); names != nil {
				t.Errorf("%q %q %q: names %q although nobody has verified them", cn, more, uri, names)
			}
			state.VerifiedChains = [][]*x509.Certificate{{cert}}
			may := map[string]bool{}
			switch {
			case from == UserFromURI && len(cert.URIs) > 0:
				may[cert.URIs[0].String()] = true
			case from == UserFromCN && cn != "" && more == "":
				may[cn] = true
			case from == UserFromCN && cn == "" && more != "":
				may[more] = true
			}
			users := &Users{names: func(s tls.ConnectionState) []string { return Names(s, from) }}
			users.current.Store(&passwords{byUser: map[string]string{user: "secret"}})
			if got, password, ok := users.Of(state); ok != may[user] || ok && (got != user || password != "secret") {
				t.Errorf("%s of %q %q %q: user %q, %v, want %v", from, cn, more, uri, got, ok, may[user])
			}
		}
	})
}

// subject is how a parsed certificate has the names that are not empty.
func subject(names ...string) (name pkix.Name) {
	var all pkix.RDNSequence
	for _, text := range names {
		if text != "" {
			all = append(all, pkix.RelativeDistinguishedNameSET{
				{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "leash"}, {Type: oidCommonName, Value: text}})
		}
	}
	name.FillFromRDNSequence(&all)
	return name
}
