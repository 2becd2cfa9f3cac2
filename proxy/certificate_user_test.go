package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/certtest"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/internal/tlsfiles"
)

// certifiedLeash is a Leash where the common name of a client's certificate is its ACL user.
type certifiedLeash struct {
	*proxytest.Leash
	authority *certtest.Authority
	users     *tlsfiles.Users
	file      string
}

// startCertified starts it with a file of users.
func startCertified(t *testing.T, redis *redistest.Server, text string) *certifiedLeash {
	t.Helper()
	c := &certifiedLeash{authority: certtest.NewAuthority(t), file: filepath.Join(t.TempDir(), "users")}
	c.write(t, text)
	var err error
	if c.users, err = tlsfiles.NewUsers(c.file, tlsfiles.UserFromCN, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{c.authority.Issue(t, nil).Load(t)},
		ClientCAs:    c.authority.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}
	c.Leash = proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.TLS, o.Front.UserOf = config, c.users.Of
		o.Upstream.User, o.Upstream.Password = "leash", "pw"
	})
	return c
}

func (l *certifiedLeash) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(l.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// connect opens a TLS connection with a certificate for a name. With the empty name, it shows none.
func (l *certifiedLeash) connect(t *testing.T, name string) *redistest.Client {
	t.Helper()
	config := &tls.Config{RootCAs: l.authority.Pool, ServerName: "127.0.0.1"}
	if name != "" {
		config.Certificates = []tls.Certificate{l.authority.Issue(t, func(c *x509.Certificate) {
			c.Subject.CommonName = name
		}, "client").Load(t)}
	}
	conn, err := tls.Dial("tcp", l.TLS, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn)
}

// startWithUsers starts a Redis whose default user has a password.
func startWithUsers(t *testing.T) (*redistest.Server, *redistest.Client) {
	t.Helper()
	redis := redistest.Start(t)
	admin := redistest.Connect(t, redis.Addr)
	for _, rules := range [][]string{
		{"leash", "on", ">pw", "~*", "&*", "+@all"}, {"app", "on", ">app password", "~app:*", "&*", "+@all"},
		{"other", "on", ">other", "~*", "&*", "+@all"}, {"default", "on", ">default"},
	} {
		admin.Want("+OK\r\n", append([]string{"ACL", "SETUSER"}, rules...)...)
	}
	return redis, admin.Client
}

const whoIsApp = "$3\r\napp\r\n"

// TestCertificateIsUser checks that a client has the user of its certificate, and that user's
// rights, without AUTH.
func TestCertificateIsUser(t *testing.T) {
	redis, _ := startWithUsers(t)
	l := startCertified(t, redis, "app app password\nunknown x\nother wrong\n")
	c := l.connect(t, "app")
	c.Want(t, whoIsApp, "ACL", "WHOAMI")
	c.Want(t, "+OK\r\n", "SET", "app:k", "v")
	proxytest.Token(t, c, "app:lock")
	for _, refused := range [][]string{{"SET", "k", "v"}, {"LOCK.ACQUIRE", "lock"}} {
		if got := c.Reply(t, refused...); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: got %q", refused, got)
		}
	}
	if own := proxytest.Fields(proxytest.Text(t, c.Reply(t, "CLIENT", "INFO"))); own["user"] != "app" {
		t.Errorf("CLIENT INFO: %v", own)
	}
	c.Want(t, "+OK\r\n", "AUTH", "leash", "pw")
	c.Want(t, "$5\r\nleash\r\n", "ACL", "WHOAMI")
	c.Want(t, "+RESET\r\n", "RESET")
	c.Want(t, whoIsApp, "ACL", "WHOAMI")
	if got := c.Reply(t, "HELLO", "3"); !strings.HasPrefix(got, "%7\r\n") {
		t.Errorf("HELLO: %q", got)
	}
	c.Want(t, whoIsApp, "ACL", "WHOAMI")
}

// TestCertificateWithoutUser checks that a client whose certificate names nobody starts as any
// other.
func TestCertificateWithoutUser(t *testing.T) {
	redis, _ := startWithUsers(t)
	l := startCertified(t, redis, "app app password\n")
	for _, name := range []string{"", "leash", "nobody"} {
		c := l.connect(t, name)
		c.Want(t, "-NOAUTH Authentication required.\r\n", "GET", "k")
		c.Want(t, "+OK\r\n", "AUTH", "other", "other")
		c.Want(t, "$5\r\nother\r\n", "ACL", "WHOAMI")
	}
	l.Dial(t).Want(t, "-NOAUTH Authentication required.\r\n", "GET", "k")
}

// TestCertificateOfRefusedUser checks that a client does not go on as somebody else when Redis does
// not accept the user of its certificate. The log names the reason once.
func TestCertificateOfRefusedUser(t *testing.T) {
	redis, admin := startWithUsers(t)
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "default", "nopass")
	l := startCertified(t, redis, "app old secret\nunknown secret\n")
	for _, name := range []string{"app", "unknown", "app"} {
		c := l.connect(t, name)
		c.Want(t, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "GET", "k")
		if got, err := c.Read(); err == nil {
			t.Errorf("got %q after the refusal", got)
		}
	}
	if n := strings.Count(l.Logs.String(), `level=WARN msg="redis does not accept the user of a certificate`); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if strings.Contains(l.Logs.String(), "secret") {
		t.Error("the log has a password")
	}
	l.write(t, "app app password\n")
	l.users.Reread()
	l.connect(t, "app").Want(t, whoIsApp, "ACL", "WHOAMI")
}

// TestCertificateUserIsRevoked checks that Leash ends the sessions of a user whom Redis no longer
// has, and leaves those of others.
func TestCertificateUserIsRevoked(t *testing.T) {
	redis, admin := startWithUsers(t)
	l := startCertified(t, redis, "app app password\nother other\n")
	c, other := l.connect(t, "app"), l.connect(t, "other")
	c.Want(t, "$-1\r\n", "GET", "app:k")
	other.Want(t, "$-1\r\n", "GET", "k")
	admin.Want(t, ":1\r\n", "ACL", "DELUSER", "app")
	proxytest.Eventually(t, "the link is lost, then refused, and the session ends", func() bool {
		got, err := c.Do("GET", "app:k")
		if got == "$-1\r\n" {
			t.Fatal("a user who does not exist has read a key")
		}
		return err != nil
	})
	other.Want(t, "$-1\r\n", "GET", "k")
}
