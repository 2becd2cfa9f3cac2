package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// libraries make n workers that share one client, by the library's name.
var libraries = map[string]func(c redis.UniversalClient, n int) []pair{
	"redsync":   withRedsync,
	"redislock": withRedislock,
	"go-redis":  withLeash,
}

// ttl is the TTL that Leash uses. Neither redsync nor redislock renews.
const ttl = 30 * time.Second

func key(i int) string { return fmt.Sprintf("bench:%d", i) }

func withRedsync(c redis.UniversalClient, n int) (workers []pair) {
	rs := redsync.New(goredis.NewPool(c))
	for i := range n {
		workers = append(workers, func(ctx context.Context) error {
			m := rs.NewMutex(key(i), redsync.WithTries(1), redsync.WithExpiry(ttl))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = fmt.Errorf("%s was not held", key(i))
			}
			return err
		})
	}
	return workers
}

func withRedislock(c redis.UniversalClient, n int) (workers []pair) {
	locks := redislock.New(c)
	for i := range n {
		workers = append(workers, func(ctx context.Context) error {
			l, err := locks.Obtain(ctx, key(i), ttl, nil)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		})
	}
	return workers
}

// withLeash gives each worker a connection of its own, because a hold depends on its connection.
func withLeash(c redis.UniversalClient, n int) (workers []pair) {
	for i := range n {
		conn := c.(*redis.Client).Conn()
		workers = append(workers, func(ctx context.Context) error {
			if _, err := conn.Do(ctx, "LOCK.ACQUIRE", key(i)).Int64(); err != nil {
				return err
			}
			if n, err := conn.Do(ctx, "LOCK.RELEASE", key(i)).Int64(); err != nil || n != 1 {
				return fmt.Errorf("release: %d, %w", n, err)
			}
			return nil
		})
	}
	return workers
}
