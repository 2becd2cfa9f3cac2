package upstream_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// rotated is a Leash whose own user has a password that a test changes. Its clients send no AUTH
// and have the rights of that user.
type rotated struct {
	*proxytest.Leash
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
	r.Leash = proxytest.Start(t, []string{r.redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.User, o.Upstream.Password, o.Front.TrustClients = "leash", "secret1", true
		o.Upstream.ReadPassword = func(string) (string, error) { return r.password.Load().(string), nil }
		o.Upstream.RedirectTimeout = 100 * time.Millisecond // commands wait as long for a connection
	})
	return r
}

// TestOwnPasswordRefused removes Leash's old password from Redis before Leash can read the new one.
// Older connections go on. No session ends and no hold is lost. Commands that need a new connection
// say why there is none, until Leash reads the new password.
func TestOwnPasswordRefused(t *testing.T) {
	t.Parallel()
	r := startRotated(t)
	holder, other, subscriber := r.Dial(t), r.Dial(t), r.Dial(t)
	token := strings.Trim(holder.Reply(t, "LOCK.ACQUIRE", "held"), ":\r\n")
	holder.Want(t, "+OK\r\n", "SET", "k", "v")
	subscriber.Want(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	app := r.Dial(t)
	r.admin.Want("+OK\r\n", "ACL", "SETUSER", "app", "on", ">secret3", "~*", "+@all")
	app.Want(t, "+OK\r\n", "AUTH", "app", "secret3")
	r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">secret2", "<secret1")

	const refusal = "-UPSTREAMDOWN Redis refuses the password of Leash's own user, the command was not executed\r\n"
	other.Want(t, refusal, "BLPOP", "empty", "0")
	holder.Want(t, "$1\r\nv\r\n", "GET", "k")
	holder.Want(t, ":1\r\n", "LOCK.CHECK", "held", "TOKEN", token)
	if got := other.Reply(t, "LOCK.ACQUIRE", "second"); got[0] != ':' {
		t.Errorf("a lock on open connections: %q", got)
	}
	// without connections, commands wait or say so
	if got := r.admin.Do("CLIENT", "KILL", "USER", "leash"); got[0] != ':' || got == ":0\r\n" {
		t.Fatal(got)
	}
	proxytest.Eventually(t, "commands say why they are not executed", func() bool { return other.Reply(t, "GET", "k") == refusal })
	holder.Want(t, refusal, "GET", "k")
	proxytest.Eventually(t, "a lock command says so too", func() bool { return app.Reply(t, "LOCK.ACQUIRE", "third") == refusal })
	app.Want(t, refusal, "LOCK.ACQUIRE", "third")

	r.password.Store("secret2")
	for _, c := range []*redistest.Client{holder, other} {
		proxytest.Eventually(t, "commands run with the new password", func() bool { return c.Reply(t, "GET", "k") == "$1\r\nv\r\n" })
	}
	proxytest.Eventually(t, "the hold is there", func() bool { return holder.Reply(t, "LOCK.CHECK", "held", "TOKEN", token) == ":1\r\n" })
	proxytest.Eventually(t, "Redis has the subscription again", func() bool {
		return r.admin.Do("PUBSUB", "NUMSUB", "c") == "*2\r\n$1\r\nc\r\n:1\r\n"
	})
	other.Want(t, ":1\r\n", "PUBLISH", "c", "m")
	if got, err := subscriber.Read(); err != nil || got != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" {
		t.Errorf("the subscriber got %q, %v", got, err)
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "held")
	log := r.Logs.Tail(10_000)
	for _, line := range []string{"redis refuses the password of Leash's own user", "redis accepts the password of Leash's own user again",
		"redis accepts the new password of Leash's own user", "cannot check the rights of a user"} {
		if n := strings.Count(log, line); n != 1 {
			t.Errorf("%q was logged %d times", line, n)
		}
	}
	if strings.Contains(log, "secret1") || strings.Contains(log, "secret2") {
		t.Error("the log has a password")
	}
	if info := holder.Reply(t, "INFO", "leash"); strings.Contains(info, "leash_upstream_logins_refused:0\r\n") {
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
	holder, reader, caching, subscriber, watching := r.Dial(t), r.Dial(t), r.Dial(t), r.Dial(t), r.Dial(t)
	token := strings.Trim(holder.Reply(t, "LOCK.ACQUIRE", "held"), ":\r\n")
	holder.Want(t, "+OK\r\n", "SET", "k", "v")
	holder.Want(t, ":1\r\n", "LPUSH", "list", "a")
	reader.Want(t, "*2\r\n$4\r\nlist\r\n$1\r\na\r\n", "BLPOP", "list", "0") // leaves an idle pinned connection
	caching.Reply(t, "HELLO", "3")
	caching.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	caching.Want(t, "$1\r\nv\r\n", "GET", "k")
	subscriber.Want(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	watching.Want(t, "+OK\r\n", "WATCH", "w")
	watching.Want(t, "+OK\r\n", "MULTI")
	watching.Want(t, "+QUEUED\r\n", "SET", "w", "1")

	old := "secret1"
	for _, now := range []string{"secret2", "secret3"} {
		logins := r.logins(t)
		r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">"+now)
		r.password.Store(now)
		// for clients, for scripts, idle, caching, with subscriptions
		proxytest.Eventually(t, "five connections send AUTH", func() bool { return r.logins(t) >= logins+5 })
		r.admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<"+old)
		old = now
		reader.Want(t, "$1\r\nv\r\n", "GET", "k")
		caching.Want(t, "$1\r\nv\r\n", "GET", "k")
		holder.Want(t, ":1\r\n", "LOCK.CHECK", "held", "TOKEN", token)
		reader.Want(t, ":1\r\n", "PUBLISH", "c", now)
		if got, err := subscriber.Read(); err != nil || got != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$7\r\n"+now+"\r\n" {
			t.Errorf("the subscriber got %q, %v", got, err)
		}
	}
	watching.Want(t, "*1\r\n+OK\r\n", "EXEC")
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "held")
	log := r.Logs.Tail(10_000)
	for _, text := range []string{"connection to redis lost", "subscriber's connection ended", "refuses the password"} {
		if strings.Contains(log, text) {
			t.Errorf("the log has %q", text)
		}
	}
	if n := strings.Count(log, "redis accepts the new password of Leash's own user"); n != 2 {
		t.Errorf("%d lines about two new passwords", n)
	}
	if n := r.Upstream.Stats().ConnectionsLost; n != 0 {
		t.Errorf("%d connections have ended", n)
	}
}
