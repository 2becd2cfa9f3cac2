package locktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd"
	"leash/lockcmd/script"
)

// ListenTo subscribes to a channel in both ways that Redisson uses.
func ListenTo(t testing.TB, rdb redis.UniversalClient, channel string) []*redis.PubSub {
	t.Helper()
	both := []*redis.PubSub{rdb.Subscribe(t.Context(), channel), rdb.SSubscribe(t.Context(), channel)}
	for _, ps := range both {
		t.Cleanup(func() { ps.Close() })
		if _, err := ps.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return both
}

// WantMessage checks that payload is the next message on a channel.
func WantMessage(t testing.TB, both []*redis.PubSub, payload string) {
	t.Helper()
	for _, ps := range both {
		if got := Receive(t, ps.Channel(), 5*time.Second).Payload; got != payload {
			t.Fatalf("got message %q, want %q", got, payload)
		}
	}
}

// WantNoMessage checks that no more messages have come.
func WantNoMessage(t testing.TB, both []*redis.PubSub) {
	t.Helper()
	<-time.After(20 * time.Millisecond)
	for _, ps := range both {
		if n := len(ps.Channel()); n != 0 {
			t.Errorf("%d unwanted messages have come, first %q", n, (<-ps.Channel()).Payload)
		}
	}
}

// SilentSubscriber is a Subscriber that receives nothing.
type SilentSubscriber struct{}

func (SilentSubscriber) Subscribe(string, bool, bool, func([]byte)) (<-chan struct{}, func()) {
	return make(chan struct{}), func() {}
}

// ShardSubscribers returns how many clients subscribe to key's sharded channel, on all nodes.
func ShardSubscribers(t testing.TB, rdb redis.UniversalClient, key string) int64 {
	t.Helper()
	return CountListeners(t, rdb, script.LockChannel(key), (*redis.Client).PubSubShardNumSub)
}

// ReceiveEvents returns when Leashes receive events on their own channels.
func ReceiveEvents(t testing.TB, rdb redis.UniversalClient, leashes ...*lockcmd.Service) {
	t.Helper()
	for _, s := range leashes {
		Eventually(t, 5*time.Second, "it receives events", func() bool { return Listeners(t, rdb, s.Events.Own) > 0 })
	}
}

// Subscribers returns how many clients subscribe to key's channel, on all nodes.
func Subscribers(t testing.TB, rdb redis.UniversalClient, key string) int64 {
	t.Helper()
	return Listeners(t, rdb, script.LockChannel(key))
}

// Listeners returns how many clients subscribe to a channel, on all nodes.
func Listeners(t testing.TB, rdb redis.UniversalClient, channel string) int64 {
	t.Helper()
	return CountListeners(t, rdb, channel, (*redis.Client).PubSubNumSub)
}

// CountListeners asks all nodes with numSub how many clients subscribe to a channel.
func CountListeners(t testing.TB, rdb redis.UniversalClient, channel string,
	numSub func(*redis.Client, context.Context, ...string) *redis.MapStringIntCmd,
) int64 {
	t.Helper()
	n, err := NumListeners(rdb, channel, numSub)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// NumListeners returns how many clients are subscribed to a channel, over all masters.
func NumListeners(rdb redis.UniversalClient, channel string,
	numSub func(*redis.Client, context.Context, ...string) *redis.MapStringIntCmd,
) (n int64, err error) {
	var sum atomic.Int64
	err = Each(rdb, func(c *redis.Client) error {
		counts, err := numSub(c, context.Background(), channel).Result()
		sum.Add(counts[channel])
		return err
	})
	return sum.Load(), err
}
