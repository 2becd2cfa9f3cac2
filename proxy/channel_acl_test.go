package proxy

import (
	"testing"

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
	l := startLeash(t, []string{redis.Addr})
	for range 3 {
		c := l.dial(t)
		want(t, c, "+OK\r\n", "AUTH", "bob", "pw")
		do(t, c, "SUBSCRIBE", "news")
		do(t, c, "PSUBSCRIBE", "n*")
		c.Close()
	}
	eventually(t, "nothing is subscribed", func() bool {
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
	for _, addr := range []string{redis.Addr, startLeash(t, []string{redis.Addr}).addr} {
		c := dialAddr(t, addr)
		want(t, c, "+OK\r\n", "AUTH", "bob", "pw")
		for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"} {
			want(t, c, "+OK\r\n", "MULTI")
			want(t, c, "+QUEUED\r\n", "SET", "k", "v")
			want(t, c, "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
				command, "other")
			want(t, c, "-"+"EXECABORT Transaction discarded because of previous errors."+"\r\n", "EXEC")
		}
		want(t, c, ":0\r\n", "EXISTS", "k")
		want(t, c, "+OK\r\n", "MULTI")
		want(t, c, "+QUEUED\r\n", "SUBSCRIBE", "mine")
		want(t, c, "*1\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nmine\r\n:1\r\n", "EXEC")
	}
}
