package acquire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR4HoldWithoutOwnerIsNeverReentrant(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(key)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "x"), "$-1")
	})
}

func TestR4OwnerEntersAgainOnItsCarrierOnly(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "OWNER", "me:1")
		if again := a.Token(key, "OWNER", "me:1"); again != token {
			t.Fatalf("got token %d on entering again, want %d", again, token)
		}
		locktest.Want(t, locktest.Count(rdb, key, "me:1"), "2")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "me:1"), "-"+refusal.Elsewhere)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "me:1", "BLOCK", "0"), "-"+refusal.Elsewhere)
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "OWNER", "me:1"), "-"+refusal.Elsewhere)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me:1"), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("the lock is still there")
		}
		a.Token(key, "OWNER", "me:1")
		a.Token(key, "OWNER", "me:1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("the lock is still there after ALL")
		}
	})
}

func TestR4RepeatedAcquireByIDMovesTheHold(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "OWNER", "me", "ID", "r1")
		if again := a.Token(key, "OWNER", "me", "ID", "r1"); again != token {
			t.Fatalf("got token %d when repeated, want %d", again, token)
		}
		locktest.Want(t, locktest.Count(rdb, key, "me"), "1")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "me", "ID", "r2"), "-"+refusal.Elsewhere)
		if again := b.Token(key, "OWNER", "me", "ID", "r1"); again != token { // within one Leash
			t.Fatalf("got token %d when repeated elsewhere, want %d", again, token)
		}
		if a.Carrier.Holds() != 0 || b.Carrier.Holds() != 1 {
			t.Fatalf("got %d and %d holds, want 0 and 1", a.Carrier.Holds(), b.Carrier.Holds())
		}
		// to another Leash
		if again := c.Token(key, "OWNER", "me", "ID", "r1", "BLOCK", "0"); again != token {
			t.Fatalf("got token %d when repeated on another Leash, want %d", again, token)
		}
		locktest.Eventually(t, 3*time.Second, "the old carrier forgets", func() bool { return b.Carrier.Holds() == 0 })
		if len(a.Losses)+len(b.Losses) != 0 {
			t.Error("a moved hold was reported as a loss")
		}
		a.Carrier.End(lockcmd.Release) // R11: its holds have moved, so nothing is released
		b.Carrier.End(lockcmd.Release)
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
	})
}

func TestR5WaitingForOwnHoldIsRefused(t *testing.T) {
	t.Parallel()
	s, key := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{}),
		locktest.NewKey()
	a := locktest.Connect(t, s)
	a.Token(key, "OWNER", "x")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "BLOCK", "100", "OWNER", "y"), "-"+refusal.Deadlock)
	a.Token(key, "OWNER", "x", "BLOCK", "0")
}

func TestR7ReleaseByIDIsRepeatable(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
		for range 3 {
			a.Token(key, "OWNER", "me")
		}
		for _, who := range []*locktest.Client{a, b, c, c} {
			locktest.Want(t, who.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r1"), ":0")
		}
		locktest.Want(t, locktest.Count(rdb, key, "me"), "2")
		locktest.Want(t, c.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r2"), ":0")
		for _, who := range []*locktest.Client{b, a, c} {
			locktest.Want(t, who.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r3"), ":1")
		}
		if locktest.Exists(t, rdb, key) || a.Carrier.Holds() != 0 || len(a.Losses) != 0 {
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
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		for _, pair := range [][2][2]string{
			{{"svc:1", "2:x"}, {"svc:1:2", "x"}},
			{{"5:svc:1", "x"}, {"5", "svc:1:x"}},
			{{"a", "b"}, {"a:b", ":"}},
		} {
			key := locktest.NewKey()
			for _, request := range pair {
				a.Token(key, "OWNER", request[0])
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", request[0], "ID", request[1]), ":1")
				// repeated
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", request[0], "ID", request[1]), ":1")
				if locktest.Exists(t, rdb, key) {
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
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, name := locktest.Connect(t, s), locktest.NewKey()
	for _, key := range []string{"{" + name + "}:leash", "{" + name + "}x:leash", "{" + name + "}:leash:waiters",
		"{" + name + "}:leash:req:2:me:1"} {
		for _, command := range []string{"LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.INFO", "LOCK.BREAK", "SEM.ACQUIRE"} {
			locktest.Want(t, a.Do(command, key), "-"+refusal.Helper)
		}
	}
	a.Token(name + ":leash") // without braces, it is a lock like any other
}

func TestR7LateCopiesDoNothing(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		until := time.Now().Add(5 * time.Second)
		token := a.Token(key, "OWNER", "me")
		late := a.AcquireOf(script.Plain, key, "me") // sent, and delayed on its way
		late.Token = token
		if a.Token(key, "OWNER", "me"); locktest.Count(rdb, key, "me") != "2" {
			t.Fatal("want count 2")
		}
		if r := a.Send(late); r.Outcome != script.AcquireStale || locktest.Count(rdb, key, "me") != "2" {
			t.Errorf("a late acquire changed the count to %s, and said %v", locktest.Count(rdb, key, "me"), r)
		}
		release := func(token, number int64) string {
			answer, err := s.Redis.Release(a.ReleaseOf(script.Plain, key, token, number), until)
			return fmt.Sprint(answer, err)
		}
		if got := release(token, 1); got != "-2 <nil>" || locktest.Count(rdb, key, "me") != "2" {
			t.Errorf("a late release took a count: %s", got)
		}
		last := a.Carrier.Requests.Add(1)
		for range 3 {
			if got := release(token, last); got != "0 <nil>" || locktest.Count(rdb, key, "me") != "1" {
				t.Fatalf("a repeated release: %s, count %s", got, locktest.Count(rdb, key, "me"))
			}
		}
		if got := release(token-1, last+9); got != "-1 <nil>" {
			t.Errorf("a release of another token: %s", got)
		}
	})
}

func TestR12TTLIsNeverLowered(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a := locktest.Connect(t, s)
		a.Token(key, "OWNER", "me", "LEASE", "60000")
		a.Token(key, "OWNER", "me", "LEASE", "1000")
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second {
			t.Errorf("entering again lowered the TTL to %v", left)
		}
		a.Token(key, "OWNER", "me", "TTL", "5000") // renewed from now on
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a := locktest.Connect(t, s)
		rdb.HSet(ctx, key, "mode", "read", "java:1", "1")
		rdb.PExpire(ctx, key, time.Minute)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key), "$-1")
		rdb.HSet(ctx, key, "me", "1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.OtherMode)
		key = locktest.NewKey()
		rdb.HSet(ctx, key, "java:1", "1") // a Redisson lock, here without a TTL
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "java:1"), "-"+refusal.Elsewhere)
		key = locktest.NewKey()
		rdb.Set(ctx, key, "text", 0)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key),
			"-WRONGTYPE Operation against a key holding the wrong kind of value")
		locktest.Want(t, a.Do("LOCK.INFO", key), "-WRONGTYPE Operation against a key holding the wrong kind of value")
	})
}

func TestR10HelpersMustShareTheSlot(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a := locktest.Connect(t, s)
		for _, key := range []string{"a}b", "a{b", "{}a", ""} {
			for _, command := range []string{"LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.TTL", "LOCK.INFO"} {
				reply := a.Do(command, key)
				if refused := reply == "-"+refusal.Slots; refused != s.Redis.IsCluster {
					t.Errorf("%s %q: got %q", command, key, reply)
				}
			}
			a.Do("LOCK.RELEASE", key)
			if s.Redis.IsCluster && locktest.Exists(t, rdb, key) {
				t.Errorf("%q has an effect", key)
			}
		}
		a.Token("{tag" + locktest.NewKey() + "}:x")
	})
}

func TestR11OrphanRecordIsReplaced(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		old := a.Token(key, "OWNER", "me")
		rdb.HDel(ctx, key, "me")
		if token := b.Token(key, "OWNER", "you"); token <= old {
			t.Errorf("got token %d after %d", token, old)
		}
		if n := rdb.HLen(ctx, key).Val(); n != 2 {
			t.Errorf("got %d fields, want 2", n)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	})
}
