package event_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// TestR20ListensInTheWaysConfigured: A waiter is woken by messages of a Java service, in each of
// the ways that it can publish.
func TestR20ListensInTheWaysConfigured(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		for _, row := range []struct {
			publish        string
			plain, sharded int64
		}{{lockcmd.PublishBoth, 1, 1}, {lockcmd.PublishPlain, 1, 0}, {lockcmd.PublishSharded, 0, 1}} {
			s := locktest.Start(t, rdb, lockcmd.Config{Publish: row.publish}, locktest.SlowRetries)
			for _, kind := range []struct {
				listens int64
				publish func(context.Context, string, any) *redis.IntCmd
			}{{row.plain, rdb.Publish}, {row.sharded, rdb.SPublish}} {
				for range kind.listens {
					key := locktest.NewKey()
					rdb.HSet(ctx, key, "java:1", "1")
					reply := locktest.Connect(t, s).Await(s, 1, key, "BLOCK", "0")
					locktest.Eventually(t, 5*time.Second, "it listens as it should", func() bool {
						return locktest.Subscribers(t, rdb, key) == row.plain &&
							locktest.ShardSubscribers(t, rdb, key) == row.sharded
					})
					rdb.Del(ctx, key)
					kind.publish(ctx, script.LockChannel(key), "0")
					locktest.TokenOf(t, locktest.Woken(t, reply))
				}
			}
		}
	})
}

func TestChannelsAreGivenUpAfterTheLastWaiter(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key)
	locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "BLOCK", "50"), "$-1")
	if locktest.Subscribers(t, rdb, key) != 1 {
		t.Error("the channel was given up at once")
	}
	locktest.Eventually(t, locktest.Soon, "it is given up", func() bool {
		return locktest.Subscribers(t, rdb, key)+locktest.ShardSubscribers(t, rdb, key) == 0
	})
}
