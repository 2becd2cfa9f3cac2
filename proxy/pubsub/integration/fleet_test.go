package pubsub_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// startFleet starts several Leashes in front of the same Redis.
func startFleet(t *testing.T, addrs []string, n int) (all []*proxytest.Leash) {
	t.Helper()
	for range n {
		l := proxytest.Start(t, addrs)
		all = append(all, l)
		joinFleet(t, l)
	}
	return all
}

// joinFleet makes a Leash known to the others. It returns a function that ends that.
func joinFleet(t *testing.T, l *proxytest.Leash) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	announced := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { _ = l.Exchange.Run(ctx, func() { close(announced) }) })
	<-announced
	leave = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(leave)
	return leave
}

// subscribe subscribes as a client and reads the confirmations.
func subscribe(t *testing.T, c *redistest.Client, commands ...string) {
	t.Helper()
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

// inOrder sorts the lines of a reply, because Redis lists channels in no order.
func inOrder(reply string) string {
	lines := strings.Split(reply, "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestFleetCountsAsOneRedis compares three Leashes and their clients with one Redis.
func TestFleetCountsAsOneRedis(t *testing.T) {
	t.Parallel()
	redis, single, cluster := redistest.Start(t), redistest.Start(t), redistest.StartCluster(t)
	questions := []string{
		"PUBSUB NUMSUB a b none __keyevent@0__:set leash:fleet", "PUBSUB SHARDNUMSUB s none", "PUBSUB NUMPAT",
		"PUBSUB CHANNELS",
		"PUBSUB CHANNELS a*", "PUBSUB CHANNELS leash:*", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDCHANNELS x*",
		"PUBSUB NUMSUB",
	}
	groups := [][]string{
		{"SUBSCRIBE a", "PSUBSCRIBE [ab]*"}, {"SUBSCRIBE a", "SSUBSCRIBE s"},
		{"SUBSCRIBE b __keyevent@0__:set", "PSUBSCRIBE *"}, {"PSUBSCRIBE *"},
		{"SUBSCRIBE a b", "SSUBSCRIBE s"}, {"PSUBSCRIBE [ab]* c*"},
	}
	for _, commands := range groups {
		subscribe(t, proxytest.Dial(t, redis.Addr), commands...)
	}
	told := proxytest.Dial(t, redis.Addr)
	for _, addrs := range [][]string{{single.Addr}, cluster.Addrs()} {
		fleet := startFleet(t, addrs, 3)
		for i, commands := range groups {
			subscribe(t, fleet[i%3].Dial(t), commands...)
		}
		holder, waiter := fleet[0].Dial(t), fleet[1].Dial(t) // Leash listens for itself
		holder.Reply(t, "LOCK.ACQUIRE", "k")
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		for i, l := range fleet {
			c := l.Dial(t)
			for _, q := range questions {
				got, wanted := "", inOrder(told.Reply(t, strings.Fields(q)...))
				for range 200 { // a lock's subscription may be on its way
					if got = inOrder(c.Reply(t, strings.Fields(q)...)); got == wanted {
						break
					}
					<-time.After(20 * time.Millisecond) // between looks
				}
				if got != wanted {
					t.Errorf("leash %d: %s: got %q, redis says %q", i, q, got, wanted)
				}
			}
		}
		past := proxytest.Dial(t, addrs[0])
		subscribe(t, past, "SUBSCRIBE a past")
		c := fleet[2].Dial(t)
		proxytest.Eventually(t, "a client that passes Leash counts, too", func() bool { // the others have 100 ms to answer
			return c.Reply(t, "PUBSUB", "NUMSUB", "a", "past") == "*4\r\n$1\r\na\r\n:4\r\n$4\r\npast\r\n:1\r\n"
		})
		past.Close()
	}
}

// TestSilentLeashOfFleetIsDropped checks that a Leash that does not answer counts as one
// subscriber, is logged, and delays nobody after it is gone.
func TestSilentLeashOfFleetIsDropped(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	asking, silent := proxytest.Start(t, []string{redis.Addr}), proxytest.Start(t, []string{redis.Addr})
	joinFleet(t, asking)
	subscribe(t, silent.Dial(t), "SUBSCRIBE a")
	subscribe(t, silent.Dial(t), "SUBSCRIBE a")
	publisher, c := redis.Client(), asking.Dial(t)
	const count = "*2\r\n$1\r\na\r\n:%d\r\n"
	one, two := strings.Replace(count, "%d", "1", 1), strings.Replace(count, "%d", "2", 1)
	const line = "another leash did not report its subscribers"
	proxytest.Eventually(t, "a line about the one that does not answer", func() bool {
		if err := publisher.Publish(t.Context(), "leash:fleet", `{"What":"here","From":"silent"}`).Err(); err != nil {
			t.Fatal(err)
		}
		c.Want(t, one, "PUBSUB", "NUMSUB", "a")
		return strings.Contains(asking.Logs.String(), line)
	})
	for range 5 {
		c.Want(t, one, "PUBSUB", "NUMSUB", "a")
	}
	if n := strings.Count(asking.Logs.String(), line); n != 1 {
		t.Errorf("%d lines", n)
	}
	for _, nonsense := range []string{"", "{", "[]", `{"What":"tell","From":"x","To":"y","Kind":9}`,
		`{"What":"tell","From":"silent","Number":1,"Entries":[{"Name":"YQ==","Clients":-7}]}`} {
		if err := publisher.Publish(t.Context(), "leash:fleet", nonsense).Err(); err != nil {
			t.Fatal(err)
		}
	}
	leave := joinFleet(t, silent)
	proxytest.Eventually(t, "its clients count", func() bool { return c.Reply(t, "PUBSUB", "NUMSUB", "a") == two })
	leave()
	proxytest.Eventually(t, "it counts as one again", func() bool { return c.Reply(t, "PUBSUB", "NUMSUB", "a") == one })
}
