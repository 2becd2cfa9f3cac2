package proxy

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/redistest"
)

// rotated is a Leash whose own user has a password that a test changes. Its clients send no AUTH
// and have the rights of that user.
type rotated struct {
	*leash
	redis    *redistest.Server
	admin    *redistest.TestClient
	password atomic.Value // string: what Leash reads
}

func startRotated(t *testing.T) *rotated {
	t.Helper()
	r := &rotated{redis: redistest.Start(t)}
	r.admin = redistest.Connect(t, r.redis.Addr)
	r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "on", ">secret1", "~*", "&*", "+@all")
	r.password.Store("secret1")
	r.leash = startLeash(t, []string{r.redis.Addr}, func(o *options) {
		o.up.User, o.up.Password, o.front.TrustClients = "leash", "secret1", true
		o.up.ReadPassword = func(string) (string, error) { return r.password.Load().(string), nil }
		o.up.RedirectTimeout = 100 * time.Millisecond // commands wait as long for a connection
	})
	return r
}

// TestOwnPasswordRefused removes Leash's old password from Redis before Leash can read the new one.
// Older connections go on. No session ends and no hold is lost. Commands that need a new connection
// say why there is none, until Leash reads the new password.
func TestOwnPasswordRefused(t *testing.T) {
	t.Parallel()
	r := startRotated(t)
	holder, other, subscriber := r.dial(t), r.dial(t), r.dial(t)
	token := strings.Trim(do(t, holder, "LOCK.ACQUIRE", "held"), ":\r\n")
	want(t, holder, "+OK\r\n", "SET", "k", "v")
	want(t, subscriber, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	app := r.dial(t)
	r.admin.Want("+OK\r\n", "ACL", "SETUSER", "app", "on", ">secret3", "~*", "+@all")
	want(t, app, "+OK\r\n", "AUTH", "app", "secret3")
	r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">secret2", "<secret1")

	const refusal = "-UPSTREAMDOWN Redis refuses the password of Leash's own user, the command was not executed\r\n"
	want(t, other, refusal, "BLPOP", "empty", "0")
	want(t, holder, "$1\r\nv\r\n", "GET", "k")
	want(t, holder, ":1\r\n", "LOCK.CHECK", "held", "TOKEN", token)
	if got := do(t, other, "LOCK.ACQUIRE", "second"); got[0] != ':' {
		t.Errorf("a lock on open connections: %q", got)
	}
	// without connections, commands wait or say so
	if got := r.admin.Do("CLIENT", "KILL", "USER", "leash"); got[0] != ':' || got == ":0\r\n" {
		t.Fatal(got)
	}
	eventually(t, "commands say why they are not executed", func() bool { return do(t, other, "GET", "k") == refusal })
	want(t, holder, refusal, "GET", "k")
	eventually(t, "a lock command says so too", func() bool { return do(t, app, "LOCK.ACQUIRE", "third") == refusal })
	want(t, app, refusal, "LOCK.ACQUIRE", "third")

	r.password.Store("secret2")
	for _, c := range []*redistest.Client{holder, other} {
		eventually(t, "commands run with the new password", func() bool { return do(t, c, "GET", "k") == "$1\r\nv\r\n" })
	}
	eventually(t, "the hold is there", func() bool { return do(t, holder, "LOCK.CHECK", "held", "TOKEN", token) == ":1\r\n" })
	eventually(t, "Redis has the subscription again", func() bool {
		return r.admin.Do("PUBSUB", "NUMSUB", "c") == "*2\r\n$1\r\nc\r\n:1\r\n"
	})
	want(t, other, ":1\r\n", "PUBLISH", "c", "m")
	if got, err := subscriber.Read(); err != nil || got != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" {
		t.Errorf("the subscriber got %q, %v", got, err)
	}
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "held")
	log := r.logs.tail(10_000)
	for _, line := range []string{"redis refuses the password of Leash's own user", "redis accepts the password of Leash's own user again",
		"redis accepts the new password of Leash's own user", "cannot check the rights of a user"} {
		if n := strings.Count(log, line); n != 1 {
			t.Errorf("%q was logged %d times", line, n)
		}
	}
	if strings.Contains(log, "secret1") || strings.Contains(log, "secret2") {
		t.Error("the log has a password")
	}
	if info := do(t, holder, "INFO", "leash"); strings.Contains(info, "leash_upstream_logins_refused:0\r\n") {
		t.Error("the refused logins are not counted")
	}
}

// logins is how many AUTH commands Redis has executed.
func (r *rotated) logins(t *testing.T) (n int) {
	t.Helper()
	_, rest, found := strings.Cut(r.admin.Do("INFO", "commandstats"), "cmdstat_auth:calls=")
	if !found {
		return 0
	}
	n, err := strconv.Atoi(rest[:strings.IndexByte(rest, ',')])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOpenConnectionsLogInAgain changes the password several times while connections of every kind
// are open. Each sends AUTH again, none ends, and no reply shifts, also not within a transaction.
func TestOpenConnectionsLogInAgain(t *testing.T) {
	t.Parallel()
	r := startRotated(t)
	holder, reader, caching, subscriber, watching := r.dial(t), r.dial(t), r.dial(t), r.dial(t), r.dial(t)
	token := strings.Trim(do(t, holder, "LOCK.ACQUIRE", "held"), ":\r\n")
	want(t, holder, "+OK\r\n", "SET", "k", "v")
	want(t, holder, ":1\r\n", "LPUSH", "list", "a")
	want(t, reader, "*2\r\n$4\r\nlist\r\n$1\r\na\r\n", "BLPOP", "list", "0") // leaves an idle pinned connection
	do(t, caching, "HELLO", "3")
	want(t, caching, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	want(t, caching, "$1\r\nv\r\n", "GET", "k")
	want(t, subscriber, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	want(t, watching, "+OK\r\n", "WATCH", "w")
	want(t, watching, "+OK\r\n", "MULTI")
	want(t, watching, "+QUEUED\r\n", "SET", "w", "1")

	old := "secret1"
	for _, now := range []string{"secret2", "secret3"} {
		logins := r.logins(t)
		r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">"+now)
		r.password.Store(now)
		// for clients, for scripts, idle, caching, with subscriptions
		eventually(t, "five connections send AUTH", func() bool { return r.logins(t) >= logins+5 })
		r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<"+old)
		old = now
		want(t, reader, "$1\r\nv\r\n", "GET", "k")
		want(t, caching, "$1\r\nv\r\n", "GET", "k")
		want(t, holder, ":1\r\n", "LOCK.CHECK", "held", "TOKEN", token)
		want(t, reader, ":1\r\n", "PUBLISH", "c", now)
		if got, err := subscriber.Read(); err != nil || got != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$7\r\n"+now+"\r\n" {
			t.Errorf("the subscriber got %q, %v", got, err)
		}
	}
	want(t, watching, "*1\r\n+OK\r\n", "EXEC")
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "held")
	log := r.logs.tail(10_000)
	for _, text := range []string{"connection to redis lost", "subscriber's connection ended", "refuses the password"} {
		if strings.Contains(log, text) {
			t.Errorf("the log has %q", text)
		}
	}
	if n := strings.Count(log, "redis accepts the new password of Leash's own user"); n != 2 {
		t.Errorf("%d lines about two new passwords", n)
	}
	if n := r.up.Stats().ConnectionsLost; n != 0 {
		t.Errorf("%d connections have ended", n)
	}
}
