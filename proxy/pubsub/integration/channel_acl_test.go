package pubsub_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestUserWithoutRightToUnsubscribe checks that Leash unsubscribes in Redis even when the user may
// not run UNSUBSCRIBE.
func TestUserWithoutRightToUnsubscribe(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "+subscribe", "+psubscribe",
		"allchannels").Err(); err != nil {
		t.Fatal(err)
	}
	l := proxytest.Start(t, []string{redis.Addr})
	for range 3 {
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
		c.Reply(t, "SUBSCRIBE", "news")
		c.Reply(t, "PSUBSCRIBE", "n*")
		c.Close()
	}
	proxytest.Eventually(t, "nothing is subscribed", func() bool {
		channels, err := redis.Client().PubSubNumSub(t.Context(), "news").Result()
		return err == nil && channels["news"] == 0 && redis.Client().PubSubNumPat(t.Context()).Val() == 0
	})
}

// TestLeavingInterruptsNobody checks that other clients of a user miss no message when one leaves a
// channel and Redis does not let the user unsubscribe.
func TestLeavingInterruptsNobody(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "+subscribe", "allchannels",
		"+ping").Err(); err != nil {
		t.Fatal(err)
	}
	l := proxytest.Start(t, []string{redis.Addr})
	subscribe := func(channel string) *redistest.Client {
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
		c.Reply(t, "SUBSCRIBE", channel)
		return c
	}
	stays := subscribe("stays")
	first := subscriberOf(t, redis, "bob")
	for range 3 {
		subscribe("news").Close()
		proxytest.Eventually(t, "no client gets news", func() bool {
			return l.Dial(t).Reply(t, "PUBSUB", "NUMSUB", "news") == "*2\r\n$4\r\nnews\r\n:0\r\n"
		})
	}
	proxytest.Eventually(t, "Redis has refused three times", func() bool {
		return strings.Contains(redis.Client().Info(t.Context(), "errorstats").Val(), "errorstat_NOPERM:count=3")
	})
	l.Dial(t).Want(t, ":0\r\n", "PUBLISH", "news", "m")
	if now := subscriberOf(t, redis, "bob"); now != first {
		t.Errorf("subscribed on the connection %s, later on %s", first, now)
	}
	l.Dial(t).Want(t, ":1\r\n", "PUBLISH", "stays", "m")
	proxytest.WantRead(t, stays, "*3\r\n$7\r\nmessage\r\n$5\r\nstays\r\n$1\r\nm\r\n")
	stays.Close()
	proxytest.Eventually(t, "nothing is subscribed", func() bool { return subscriberOf(t, redis, "bob") == "none" })
}

// subscriberOf returns the id of a connection on which a user is subscribed, or "none".
func subscriberOf(t *testing.T, redis *redistest.Server, user string) string {
	t.Helper()
	list := redis.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()
	for line := range strings.Lines(list) {
		if _, id, ok := strings.Cut(line, "id="); ok && strings.Contains(line, " user="+user+" ") {
			return id[:strings.IndexByte(id, ' ')]
		}
	}
	return "none"
}

// TestUserWithoutRightToPing checks that a subscription stays on its connection when Redis refuses
// the PINGs that Leash sends there.
func TestUserWithoutRightToPing(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "+subscribe", "+unsubscribe",
		"allchannels").Err(); err != nil {
		t.Fatal(err)
	}
	c := proxytest.Start(t, []string{redis.Addr}).Dial(t)
	c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
	c.Want(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", "SUBSCRIBE", "news")
	first := subscriberOf(t, redis, "bob")
	proxytest.Eventually(t, "Redis has refused three times", func() bool {
		var refused int
		stats := redis.Client().Info(t.Context(), "errorstats").Val()
		_, count, _ := strings.Cut(stats, "errorstat_NOPERM:count=")
		_, err := fmt.Sscan(strings.TrimSpace(count), &refused)
		return err == nil && refused >= 3
	})
	if now := subscriberOf(t, redis, "bob"); now != first {
		t.Errorf("subscribed on the connection %s, later on %s", first, now)
	}
	if n := redis.Client().Publish(t.Context(), "news", "m").Val(); n != 1 {
		t.Errorf("%d subscribers, want 1", n)
	}
	proxytest.WantRead(t, c, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nm\r\n")
}

// TestForbiddenChannelInsideTransaction checks that a forbidden channel inside MULTI aborts the
// transaction, as in Redis.
func TestForbiddenChannelInsideTransaction(t *testing.T) {
	redis := redistest.Start(t)
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "resetchannels",
		"&mine").Err(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{redis.Addr, proxytest.Start(t, []string{redis.Addr}).Addr} {
		c := proxytest.Dial(t, addr)
		c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
		for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
			c.Want(t, "+OK\r\n", "MULTI")
			c.Want(t, "+QUEUED\r\n", "SET", "k", "v")
			c.Want(t, "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
				command, "other")
			c.Want(t, "-"+"EXECABORT Transaction discarded because of previous errors."+"\r\n", "EXEC")
		}
		c.Want(t, ":0\r\n", "EXISTS", "k")
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "SUBSCRIBE", "mine")
		c.Want(t, "*1\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nmine\r\n:1\r\n", "EXEC")
	}
}
