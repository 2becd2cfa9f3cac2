package pubsub_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestCountsAreThoseOfOneRedis compares the counts of subscribers with those of a single Redis.
func TestCountsAreThoseOfOneRedis(t *testing.T) {
	t.Parallel()
	redis, single, cluster := redistest.Start(t), redistest.Start(t), redistest.StartCluster(t)
	questions := []string{
		"PUBLISH a x", "PUBLISH b x", "PUBLISH none x", "PUBLISH __keyevent@0__:set x", "SPUBLISH s x",
		"SPUBLISH none x", "PUBSUB NUMSUB a b none __keyevent@0__:set",
		"PUBSUB SHARDNUMSUB s none", "PUBSUB NUMPAT", "PUBSUB CHANNELS a", "PUBSUB CHANNELS none*",
		"PUBSUB SHARDCHANNELS", "PUBSUB SHARDCHANNELS x*",
		"PUBSUB CHANNELS __key*",
	}
	for _, addrs := range [][]string{{single.Addr}, cluster.Addrs()} {
		l := proxytest.Start(t, addrs)
		for _, addr := range []string{redis.Addr, l.Addr} {
			for _, commands := range [][]string{{"SUBSCRIBE a", "PSUBSCRIBE [ab]*"},
				{"SUBSCRIBE a", "SSUBSCRIBE s"}, {"SUBSCRIBE b __keyevent@0__:set", "PSUBSCRIBE *"}, {"PSUBSCRIBE *"}} {
				c := proxytest.Dial(t, addr)
				for _, command := range commands {
					if err := c.Send(redistest.Command(strings.Fields(command)...)); err != nil {
						t.Fatal(err)
					}
					for range strings.Fields(command)[1:] {
						if _, err := c.Read(); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
		told, asked := proxytest.Dial(t, redis.Addr), l.Dial(t)
		for _, q := range questions {
			asked.Want(t, told.Reply(t, strings.Fields(q)...), strings.Fields(q)...)
		}
		told.Close()
		closeAll(t, redis)
	}
}

// closeAll closes the subscribers of a server.
func closeAll(t *testing.T, s *redistest.Server) {
	t.Helper()
	if err := s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
}

// TestCountsWithOthersAndLocks checks that subscribers that bypass Leash are counted, and Leash's
// own subscriptions are not.
func TestCountsWithOthersAndLocks(t *testing.T) {
	t.Parallel()
	for _, addrs := range [][]string{{redistest.Start(t).Addr}, redistest.StartCluster(t).Addrs()} {
		l := proxytest.Start(t, addrs)
		c, past := l.Dial(t), proxytest.Dial(t, addrs[0])
		past.Want(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "SUBSCRIBE", "a")
		l.Dial(t).Want(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "SUBSCRIBE", "a")
		c.Want(t, "*2\r\n$1\r\na\r\n:2\r\n", "PUBSUB", "NUMSUB", "a")
		holder, waiter := l.Dial(t), l.Dial(t)
		holder.Reply(t, "LOCK.ACQUIRE", "k")
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		const channel = "redisson_lock__channel:{k}"
		proxytest.Eventually(t, "the waiter listens", func() bool { return l.Exchange.Stats().Subscriptions >= 4 })
		proxytest.Eventually(t, "the waiter's subscription is confirmed, and does not count", func() bool {
			return c.Reply(t, "PUBSUB", "NUMSUB", channel) == "*2\r\n$26\r\n"+channel+"\r\n:0\r\n"
		})
		c.Want(t, "*1\r\n$1\r\na\r\n", "PUBSUB", "CHANNELS")
		c.Want(t, "*0\r\n", "PUBSUB", "SHARDCHANNELS")
		c.Want(t, ":0\r\n", "PUBLISH", channel, "x")
		past.Want(t, "*3\r\n$9\r\nsubscribe\r\n$26\r\n"+channel+"\r\n:2\r\n", "SUBSCRIBE", channel)
		c.Want(t, "*0\r\n", "PUBSUB", "CHANNELS", "redisson*")
		l.Dial(t).Want(t, "*3\r\n$9\r\nsubscribe\r\n$26\r\n"+channel+"\r\n:1\r\n", "SUBSCRIBE", channel)
		c.Want(t, "*1\r\n$26\r\n"+channel+"\r\n", "PUBSUB", "CHANNELS", "redisson*")
	}
}

// TestPublishWithoutSubscribersIsRelayed checks that PUBLISH without subscribers of Leash costs no
// more than any relayed command.
func TestPublishWithoutSubscribersIsRelayed(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	l.Dial(t).Want(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "SUBSCRIBE", "a")
	if l.Exchange.Listens(0, []byte("b")) || !l.Exchange.Listens(0, []byte("a")) {
		t.Error("the exchange does not know what it listens to")
	}
	if n := testing.AllocsPerRun(100, func() { l.Exchange.Listens(0, []byte("b")) }); n != 0 {
		t.Errorf("asking takes %v allocations", n)
	}
}
