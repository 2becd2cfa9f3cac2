package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func count(rdb redis.UniversalClient, key, owner string) string {
	return rdb.HGet(context.Background(), key, owner).Val()
}

func TestR4HoldWithoutOwnerIsNeverReentrant(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		a.token(key)
		want(t, a.do("LOCK.ACQUIRE", key), "$-1")
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "x"), "$-1")
	})
}

func TestR4OwnerEntersAgainOnItsCarrierOnly(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c := connect(t, s), connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me:1")
		if again := a.token(key, "OWNER", "me:1"); again != token {
			t.Fatalf("got token %d on entering again, want %d", again, token)
		}
		want(t, count(rdb, key, "me:1"), "2")
		want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "me:1"), "-"+refusal.Elsewhere)
		want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "me:1", "BLOCK", "0"), "-"+refusal.Elsewhere)
		want(t, c.do("LOCK.ACQUIRE", key, "OWNER", "me:1"), "-"+refusal.Elsewhere)
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "me:1"), ":1")
		if exists(t, rdb, key) {
			t.Error("the lock is still there")
		}
		a.token(key, "OWNER", "me:1")
		a.token(key, "OWNER", "me:1")
		want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
		if exists(t, rdb, key) {
			t.Error("the lock is still there after ALL")
		}
	})
}

func TestR4RepeatedAcquireByIDMovesTheHold(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c := connect(t, s), connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me", "ID", "r1")
		if again := a.token(key, "OWNER", "me", "ID", "r1"); again != token {
			t.Fatalf("got token %d when repeated, want %d", again, token)
		}
		want(t, count(rdb, key, "me"), "1")
		want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "me", "ID", "r2"), "-"+refusal.Elsewhere)
		if again := b.token(key, "OWNER", "me", "ID", "r1"); again != token { // within one Leash
			t.Fatalf("got token %d when repeated elsewhere, want %d", again, token)
		}
		if a.carrier.Holds() != 0 || b.carrier.Holds() != 1 {
			t.Fatalf("got %d and %d holds, want 0 and 1", a.carrier.Holds(), b.carrier.Holds())
		}
		// to another Leash
		if again := c.token(key, "OWNER", "me", "ID", "r1", "BLOCK", "0"); again != token {
			t.Fatalf("got token %d when repeated on another Leash, want %d", again, token)
		}
		eventually(t, 3*time.Second, "the old carrier forgets", func() bool { return b.carrier.Holds() == 0 })
		if len(a.losses)+len(b.losses) != 0 {
			t.Error("a moved hold was reported as a loss")
		}
		a.carrier.End(Release) // R11: its holds have moved, so nothing is released
		b.carrier.End(Release)
		want(t, c.do("LOCK.RELEASE", key), ":1")
	})
}

func TestR5WaitingForOwnHoldIsRefused(t *testing.T) {
	t.Parallel()
	s, key := leash(t, dialServer(t, sharedServer(t).Addr), Config{}), newKey()
	a := connect(t, s)
	a.token(key, "OWNER", "x")
	want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)
	want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "100", "OWNER", "y"), "-"+refusal.Deadlock)
	a.token(key, "OWNER", "x", "BLOCK", "0")
}

func TestR7ReleaseByIDIsRepeatable(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c := connect(t, s), connect(t, s), connect(t, other)
		for range 3 {
			a.token(key, "OWNER", "me")
		}
		for _, who := range []*conn{a, b, c, c} {
			want(t, who.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r1"), ":0")
		}
		want(t, count(rdb, key, "me"), "2")
		want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r2"), ":0")
		for _, who := range []*conn{b, a, c} {
			want(t, who.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r3"), ":1")
		}
		if exists(t, rdb, key) || a.carrier.Holds() != 0 || len(a.losses) != 0 {
			t.Error("the released hold is still there, or was reported as a loss")
		}
		if left := rdb.PTTL(context.Background(), script.AnswerKey(key,
			script.RequestID("me", "r3"))).Val(); left < time.Second || left > 30*time.Second {
			t.Errorf("got an answer's TTL %v, want one TTL", left)
		}
	})
}

// TestR7RequestsOfOwnersWithColons: Owners and IDs with colons, which look the same when joined,
// are different requests.
func TestR7RequestsOfOwnersWithColons(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		a, b := connect(t, s), connect(t, s)
		for _, pair := range [][2][2]string{
			{{"svc:1", "2:x"}, {"svc:1:2", "x"}},
			{{"5:svc:1", "x"}, {"5", "svc:1:x"}},
			{{"a", "b"}, {"a:b", ":"}},
		} {
			key := newKey()
			for _, request := range pair {
				a.token(key, "OWNER", request[0])
				want(t, b.do("LOCK.RELEASE", key, "OWNER", request[0], "ID", request[1]), ":1")
				// repeated
				want(t, b.do("LOCK.RELEASE", key, "OWNER", request[0], "ID", request[1]), ":1")
				if exists(t, rdb, key) {
					t.Errorf("%q: the lock was not released", request)
				}
			}
		}
	})
}

// TestKeysOfOtherLocksAreRefused: The records of a read-write lock are in a hash, as a lock is.
// Lock commands refuse such a key.
func TestKeysOfOtherLocksAreRefused(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, name := connect(t, s), newKey()
	for _, key := range []string{"{" + name + "}:leash", "{" + name + "}x:leash", "{" + name + "}:leash:waiters",
		"{" + name + "}:leash:req:2:me:1"} {
		for _, command := range []string{"LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.INFO", "LOCK.BREAK", "SEM.ACQUIRE"} {
			want(t, a.do(command, key), "-"+refusal.Helper)
		}
	}
	a.token(name + ":leash") // without braces, it is a lock like any other
}

func TestR7LateCopiesDoNothing(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		until := time.Now().Add(5 * time.Second)
		token := a.token(key, "OWNER", "me")
		late := a.acquireOf(script.Plain, key, "me") // sent, and delayed on its way
		late.Token = token
		if a.token(key, "OWNER", "me"); count(rdb, key, "me") != "2" {
			t.Fatal("want count 2")
		}
		if r := a.send(late); r.Outcome != script.AcquireStale || count(rdb, key, "me") != "2" {
			t.Errorf("a late acquire changed the count to %s, and said %v", count(rdb, key, "me"), r)
		}
		release := func(token, number int64) string {
			answer, err := s.Redis.Release(a.releaseOf(script.Plain, key, token, number), until)
			return fmt.Sprint(answer, err)
		}
		if got := release(token, 1); got != "-2 <nil>" || count(rdb, key, "me") != "2" {
			t.Errorf("a late release took a count: %s", got)
		}
		last := a.carrier.Requests.Add(1)
		for range 3 {
			if got := release(token, last); got != "0 <nil>" || count(rdb, key, "me") != "1" {
				t.Fatalf("a repeated release: %s, count %s", got, count(rdb, key, "me"))
			}
		}
		if got := release(token-1, last+9); got != "-1 <nil>" {
			t.Errorf("a release of another token: %s", got)
		}
	})
}

func TestR12TTLIsNeverLowered(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		a.token(key, "OWNER", "me", "LEASE", "60000")
		a.token(key, "OWNER", "me", "LEASE", "1000")
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second {
			t.Errorf("entering again lowered the TTL to %v", left)
		}
		a.token(key, "OWNER", "me", "TTL", "5000") // renewed from now on
		want(t, a.do("LOCK.RELEASE", key), ":0")
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second {
			t.Errorf("a release lowered the TTL to %v", left)
		}
		if f := strings.Fields(rdb.HGet(ctx, key, "leash").Val()); f[6] != "5000" || f[7] != "w" {
			t.Errorf("got record %q, want a renewed one of 5 s", f)
		}
		s.RenewAll(ctx)
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second {
			t.Errorf("a renewal lowered the TTL to %v", left)
		}
	})
}

func TestR9OtherKindsCountAsTaken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		rdb.HSet(ctx, key, "mode", "read", "java:1", "1")
		rdb.PExpire(ctx, key, time.Minute)
		want(t, a.do("LOCK.ACQUIRE", key), "$-1")
		rdb.HSet(ctx, key, "me", "1")
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.OtherMode)
		key = newKey()
		rdb.HSet(ctx, key, "java:1", "1") // a Redisson lock, here without a TTL
		want(t, a.do("LOCK.ACQUIRE", key), "$-1")
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "java:1"), "-"+refusal.Elsewhere)
		key = newKey()
		rdb.Set(ctx, key, "text", 0)
		want(t, a.do("LOCK.ACQUIRE", key), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		want(t, a.do("LOCK.INFO", key), "-WRONGTYPE Operation against a key holding the wrong kind of value")
	})
}

func TestR10HelpersMustShareTheSlot(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		a := connect(t, s)
		for _, key := range []string{"a}b", "a{b", "{}a", ""} {
			for _, command := range []string{"LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.TTL", "LOCK.INFO"} {
				reply := a.do(command, key)
				if refused := reply == "-"+refusal.Slots; refused != s.Redis.IsCluster {
					t.Errorf("%s %q: got %q", command, key, reply)
				}
			}
			a.do("LOCK.RELEASE", key)
			if s.Redis.IsCluster && exists(t, rdb, key) {
				t.Errorf("%q has an effect", key)
			}
		}
		a.token("{tag" + newKey() + "}:x")
	})
}

func TestR11OrphanRecordIsReplaced(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a, b := connect(t, s), connect(t, s)
		old := a.token(key, "OWNER", "me")
		rdb.HDel(ctx, key, "me")
		if token := b.token(key, "OWNER", "you"); token <= old {
			t.Errorf("got token %d after %d", token, old)
		}
		if n := rdb.HLen(ctx, key).Val(); n != 2 {
			t.Errorf("got %d fields, want 2", n)
		}
		want(t, a.do("LOCK.RELEASE", key), "-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
		want(t, b.do("LOCK.RELEASE", key), ":1")
	})
}

// releaseOf is the release of a count by the owner "me", in the name of the connection.
func (c *conn) releaseOf(m *script.Mode, key string, token, number int64) *script.ReleaseArgs {
	ref := script.Ref{Lock: script.Lock{Key: key}, Token: token, Carrier: c.carrier.Name}
	return &script.ReleaseArgs{End: script.EndArgs{Mode: m, Owner: "me", Hold: ref, Request: number}}
}
