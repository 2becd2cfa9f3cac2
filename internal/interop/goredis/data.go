package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func (a *app) strings() error {
	binary := "\x00\r\n$5\r\n\xff{}"
	set, err := a.rdb.Set(a.ctx, "string", binary, time.Minute).Result()
	got, err2 := a.rdb.Get(a.ctx, "string").Result()
	again, err3 := a.rdb.SetNX(a.ctx, "string", "other", 0).Result()
	sum, err4 := a.rdb.IncrBy(a.ctx, "number", 42).Result()
	_, missing := a.rdb.Get(a.ctx, "missing").Result()
	return errors.Join(want("SET", set, err, "OK"), want("GET", got, err2, binary), want("SET NX", again, err3, false),
		want("INCRBY", sum, err4, int64(42)), want("GET of nothing", missing, nil, redis.Nil))
}

func (a *app) hashes() error {
	added, err := a.rdb.HSet(a.ctx, "hash", "name", "leash", "legs", 4).Result()
	got, err2 := a.rdb.HGetAll(a.ctx, "hash").Result()
	return errors.Join(want("HSET", added, err, int64(2)),
		want("HGETALL", got, err2, map[string]string{"name": "leash", "legs": "4"}))
}

func (a *app) lists() error {
	length, err := a.rdb.RPush(a.ctx, "list", "a", "b", "c").Result()
	got, err2 := a.rdb.LRange(a.ctx, "list", 0, -1).Result()
	return errors.Join(want("RPUSH", length, err, int64(3)), want("LRANGE", got, err2, []string{"a", "b", "c"}))
}

func (a *app) sets() error {
	added, err := a.rdb.SAdd(a.ctx, "set", "a", "b", "a").Result()
	got, err2 := a.rdb.SMembersMap(a.ctx, "set").Result()
	return errors.Join(want("SADD", added, err, int64(2)), want("SMEMBERS", got, err2, map[string]struct{}{"a": {}, "b": {}}))
}

func (a *app) zsets() error {
	members := []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}}
	added, err := a.rdb.ZAdd(a.ctx, "zset", members...).Result()
	got, err2 := a.rdb.ZRangeWithScores(a.ctx, "zset", 0, -1).Result()
	return errors.Join(want("ZADD", added, err, int64(2)), want("ZRANGE", got, err2, members))
}

func (a *app) streams() error {
	for i := range 3 {
		if err := a.rdb.XAdd(a.ctx, &redis.XAddArgs{Stream: "stream", Values: []any{"n", i}}).Err(); err != nil {
			return err
		}
	}
	if err := a.rdb.XGroupCreate(a.ctx, "stream", "group", "0").Err(); err != nil {
		return err
	}
	group := &redis.XReadGroupArgs{Group: "group", Consumer: "one", Streams: []string{"stream", ">"}, Block: 100 * time.Millisecond}
	read, err := a.rdb.XReadGroup(a.ctx, group).Result()
	if err != nil || len(read) != 1 || len(read[0].Messages) != 3 {
		return fmt.Errorf("XREADGROUP: got %v, %v; want three messages", read, err)
	}
	acked, err := a.rdb.XAck(a.ctx, "stream", "group", read[0].Messages[0].ID, read[0].Messages[2].ID).Result()
	pending, err2 := a.rdb.XPending(a.ctx, "stream", "group").Result()
	_, none := a.rdb.XReadGroup(a.ctx, group).Result()
	return errors.Join(want("last message", read[0].Messages[2].Values, nil, map[string]any{"n": "2"}),
		want("XACK", acked, err, int64(2)), want("XPENDING", pending.Count, err2, int64(1)),
		want("XREADGROUP BLOCK of nothing", none, nil, redis.Nil))
}

func (a *app) keysOverSlots() error {
	pairs, keys, values := []any{}, []string{}, []any{}
	for i := range 100 {
		key := fmt.Sprintf("multi:%d", i)
		pairs, keys, values = append(pairs, key, i), append(keys, key), append(values, strconv.Itoa(i))
	}
	set, err := a.rdb.MSet(a.ctx, pairs...).Result()
	got, err2 := a.rdb.MGet(a.ctx, append(keys, "missing")...).Result()
	deleted, err3 := a.rdb.Del(a.ctx, keys...).Result()
	return errors.Join(want("MSET", set, err, "OK"), want("MGET", got, err2, append(values, nil)), want("DEL", deleted, err3, int64(100)))
}

func (a *app) scan() error {
	_, err := a.rdb.Pipelined(a.ctx, func(p redis.Pipeliner) error {
		for i := range 10000 {
			p.Set(a.ctx, fmt.Sprintf("scan:%d", i), "", 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	each := func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, "scan:*", 100).Iterator()
		for keys.Next(ctx) {
			mu.Lock()
			seen[keys.Val()] = true
			mu.Unlock()
		}
		return keys.Err()
	}
	switch rdb := a.rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(a.ctx, each)
	case *redis.Client:
		err = each(a.ctx, rdb)
	}
	return want("keys seen", len(seen), err, 10000)
}

func (a *app) largeValue() error {
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
	if err := a.rdb.Set(a.ctx, "large", large, 0).Err(); err != nil {
		return err
	}
	got, err := a.rdb.Get(a.ctx, "large").Bytes()
	return want("16 MB come back", bytes.Equal(got, large), err, true)
}
