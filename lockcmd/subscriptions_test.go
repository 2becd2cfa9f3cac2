package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// shardSubscribers returns how many clients subscribe to key's sharded channel, on all nodes.
func shardSubscribers(t testing.TB, rdb redis.UniversalClient, key string) int64 {
	t.Helper()
	return countListeners(t, rdb, script.LockChannel(key), (*redis.Client).PubSubShardNumSub)
}

// TestR20ListensInTheWaysConfigured: A waiter is woken by messages of a Java service, in each of
// the ways that it can publish.
func TestR20ListensInTheWaysConfigured(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		for _, row := range []struct {
			publish        string
			plain, sharded int64
		}{{PublishBoth, 1, 1}, {PublishPlain, 1, 0}, {PublishSharded, 0, 1}} {
			s := leash(t, rdb, Config{Publish: row.publish}, slowRetries)
			for _, kind := range []struct {
				listens int64
				publish func(context.Context, string, any) *redis.IntCmd
			}{{row.plain, rdb.Publish}, {row.sharded, rdb.SPublish}} {
				for range kind.listens {
					key := newKey()
					rdb.HSet(ctx, key, "java:1", "1")
					reply := connect(t, s).await(s, 1, key, "BLOCK", "0")
					eventually(t, 5*time.Second, "it listens as it should", func() bool {
						return subscribers(t, rdb, key) == row.plain && shardSubscribers(t, rdb, key) == row.sharded
					})
					rdb.Del(ctx, key)
					kind.publish(ctx, script.LockChannel(key), "0")
					tokenOf(t, woken(t, reply))
				}
			}
		}
	})
}

func TestChannelsAreGivenUpAfterTheLastWaiter(t *testing.T) {
	t.Parallel()
	takesLong(t)
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a, b := connect(t, s), connect(t, s)
	a.token(key)
	want(t, b.do("LOCK.ACQUIRE", key, "BLOCK", "50"), "$-1")
	if subscribers(t, rdb, key) != 1 {
		t.Error("the channel was given up at once")
	}
	eventually(t, soon, "it is given up", func() bool {
		return subscribers(t, rdb, key)+shardSubscribers(t, rdb, key) == 0
	})
}
