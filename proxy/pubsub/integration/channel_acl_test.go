package pubsub_test

import (
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
