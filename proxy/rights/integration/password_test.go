package rights_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestPasswordChanges checks that a new password of Leash's own user needs no restart. New
// connections use it, and no hold is lost.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := redistest.Connect(t, s.Addr)
	admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "on", ">secret1", "~*", "&*", "+@all")
	var password atomic.Value
	password.Store("secret1")
	l := proxytest.Start(t, []string{s.Addr}, func(o *proxytest.Options) {
		o.Upstream.User, o.Upstream.Password = "leash", "secret1"
		o.Upstream.ReadPassword = func(string) (string, error) {
			if now := password.Load().(string); now != "" {
				return now, nil
			}
			return "", errors.New("no file")
		}
		o.Front.TrustClients = true
	})
	holder := l.Dial(t)
	if got := holder.Reply(t, "LOCK.ACQUIRE", "held"); got[0] != ':' {
		t.Fatal(got)
	}
	for _, change := range []struct{ old, now string }{{"secret1", "secret2"}, {"secret2", "secret3"}} {
		admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">"+change.now)
		password.Store(change.now)
		admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<"+change.old)
		if got := admin.Do("CLIENT", "KILL", "USER", "leash"); got[0] != ':' || got == ":0\r\n" {
			t.Fatal(got)
		}
		proxytest.Eventually(t, "commands run with the new password", func() bool {
			return holder.Reply(t, "SET", "k", change.now) == "+OK\r\n"
		})
		other := l.Dial(t)
		proxytest.Eventually(t, "locks are granted with the new password", func() bool {
			return strings.HasPrefix(other.Reply(t, "LOCK.ACQUIRE", change.now), ":")
		})
		other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "held")
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "held")
	for _, secret := range []string{"secret1", "secret2", "secret3"} {
		if strings.Contains(l.Logs.Tail(1000), secret) {
			t.Errorf("the log has the password %q", secret)
		}
	}

	password.Store("")
	admin.Do("CLIENT", "KILL", "USER", "leash")
	proxytest.Eventually(t, "commands run with the last password", func() bool {
		return holder.Reply(t, "SET", "k", "v") == "+OK\r\n"
	})
	if !strings.Contains(l.Logs.Tail(1000), "cannot read the password of Leash's own user again") {
		t.Error("the log does not say that the password cannot be read")
	}
}
