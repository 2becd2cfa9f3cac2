package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
)

// startFleet starts several Leashes in front of the same Redis.
func startFleet(t *testing.T, addrs []string, n int) (all []*leash) {
	t.Helper()
	for range n {
		l := startLeash(t, addrs)
		all = append(all, l)
		joinFleet(t, l)
	}
	return all
}

// joinFleet makes a Leash known to the others. It returns a function that ends that.
func joinFleet(t *testing.T, l *leash) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	announced := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { _ = l.exchange.Run(ctx, func() { close(announced) }) })
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
		subscribe(t, dialAddr(t, redis.Addr), commands...)
	}
	told := dialAddr(t, redis.Addr)
	for _, addrs := range [][]string{{single.Addr}, cluster.Addrs()} {
		fleet := startFleet(t, addrs, 3)
		for i, commands := range groups {
			subscribe(t, fleet[i%3].dial(t), commands...)
		}
		holder, waiter := fleet[0].dial(t), fleet[1].dial(t) // Leash listens for itself
		do(t, holder, "LOCK.ACQUIRE", "k")
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		for i, l := range fleet {
			c := l.dial(t)
			for _, q := range questions {
				got, wanted := "", inOrder(do(t, told, strings.Fields(q)...))
				for range 200 { // a lock's subscription may be on its way
					if got = inOrder(do(t, c, strings.Fields(q)...)); got == wanted {
						break
					}
					<-time.After(20 * time.Millisecond) // between looks
				}
				if got != wanted {
					t.Errorf("leash %d: %s: got %q, redis says %q", i, q, got, wanted)
				}
			}
		}
		past := dialAddr(t, addrs[0])
		subscribe(t, past, "SUBSCRIBE a past")
		c := fleet[2].dial(t)
		eventually(t, "a client that passes Leash counts, too", func() bool { // the others have 100 ms to answer
			return do(t, c, "PUBSUB", "NUMSUB", "a", "past") == "*4\r\n$1\r\na\r\n:4\r\n$4\r\npast\r\n:1\r\n"
		})
		past.Close()
	}
}

// TestSilentLeashOfFleetIsDropped checks that a Leash that does not answer counts as one
// subscriber, is logged, and delays nobody after it is gone.
func TestSilentLeashOfFleetIsDropped(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	asking, silent := startLeash(t, []string{redis.Addr}), startLeash(t, []string{redis.Addr})
	joinFleet(t, asking)
	subscribe(t, silent.dial(t), "SUBSCRIBE a")
	subscribe(t, silent.dial(t), "SUBSCRIBE a")
	publisher, c := redis.Client(), asking.dial(t)
	const count = "*2\r\n$1\r\na\r\n:%d\r\n"
	one, two := strings.Replace(count, "%d", "1", 1), strings.Replace(count, "%d", "2", 1)
	const line = "another leash did not report its subscribers"
	eventually(t, "a line about the one that does not answer", func() bool {
		if err := publisher.Publish(t.Context(), "leash:fleet", `{"What":"here","From":"silent"}`).Err(); err != nil {
			t.Fatal(err)
		}
		want(t, c, one, "PUBSUB", "NUMSUB", "a")
		return strings.Contains(asking.logs.String(), line)
	})
	for range 5 {
		want(t, c, one, "PUBSUB", "NUMSUB", "a")
	}
	if n := strings.Count(asking.logs.String(), line); n != 1 {
		t.Errorf("%d lines", n)
	}
	for _, nonsense := range []string{"", "{", "[]", `{"What":"tell","From":"x","To":"y","Kind":9}`,
		`{"What":"tell","From":"silent","Number":1,"Entries":[{"Name":"YQ==","Clients":-7}]}`} {
		if err := publisher.Publish(t.Context(), "leash:fleet", nonsense).Err(); err != nil {
			t.Fatal(err)
		}
	}
	leave := joinFleet(t, silent)
	eventually(t, "its clients count", func() bool { return do(t, c, "PUBSUB", "NUMSUB", "a") == two })
	leave()
	eventually(t, "it counts as one again", func() bool { return do(t, c, "PUBSUB", "NUMSUB", "a") == one })
}
