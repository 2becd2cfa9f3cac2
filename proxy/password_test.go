package proxy

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

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
	l := startLeash(t, []string{s.Addr}, func(o *options) {
		o.up.User, o.up.Password = "leash", "secret1"
		o.up.ReadPassword = func(string) (string, error) {
			if now := password.Load().(string); now != "" {
				return now, nil
			}
			return "", errors.New("no file")
		}
		o.front.TrustClients = true
	})
	holder := l.dial(t)
	if got := do(t, holder, "LOCK.ACQUIRE", "held"); got[0] != ':' {
		t.Fatal(got)
	}
	for _, change := range []struct{ old, now string }{{"secret1", "secret2"}, {"secret2", "secret3"}} {
		admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">"+change.now)
		password.Store(change.now)
		admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<"+change.old)
		if got := admin.Do("CLIENT", "KILL", "USER", "leash"); got[0] != ':' || got == ":0\r\n" {
			t.Fatal(got)
		}
		eventually(t, "commands run with the new password", func() bool {
			return do(t, holder, "SET", "k", change.now) == "+OK\r\n"
		})
		other := l.dial(t)
		eventually(t, "locks are granted with the new password", func() bool {
			return strings.HasPrefix(do(t, other, "LOCK.ACQUIRE", change.now), ":")
		})
		want(t, other, "$-1\r\n", "LOCK.ACQUIRE", "held")
	}
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "held")
	for _, secret := range []string{"secret1", "secret2", "secret3"} {
		if strings.Contains(l.logs.tail(1000), secret) {
			t.Errorf("the log has the password %q", secret)
		}
	}

	password.Store("")
	admin.Do("CLIENT", "KILL", "USER", "leash")
	eventually(t, "commands run with the last password", func() bool {
		return do(t, holder, "SET", "k", "v") == "+OK\r\n"
	})
	if !strings.Contains(l.logs.tail(1000), "cannot read the password of Leash's own user again") {
		t.Error("the log does not say that the password cannot be read")
	}
}
