package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// locked holds a lock as README.md shows.
func locked(ctx context.Context, addr string, work func(*redis.Conn) error) error {
	// README
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 15 * time.Second})
	defer rdb.Close()
	c := rdb.Conn() // the lock, the work and the release share this connection
	defer c.Close()
	token, err := c.Do(ctx, "LOCK.ACQUIRE", "order:42", "BLOCK", 10000).Int64()
	if err != nil {
		return err // redis.Nil: the lock is taken
	}
	defer c.Do(context.WithoutCancel(ctx), "LOCK.RELEASE", "order:42", "TOKEN", token)
	return work(c)
	// end of README
}

// withPassword connects as docs/clients.md shows.
func withPassword(addr string) *redis.Client {
	// docs
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Username: "shop", Password: "open-sesame",
		MaxRetries: -1, ReadTimeout: 15 * time.Second,
	})
	// end of docs
	return rdb
}
