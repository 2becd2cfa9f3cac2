package locktest

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// RecordOf returns Redis's record of a hold.
func RecordOf(t testing.TB, rdb redis.UniversalClient, h *hold.Hold) (script.Record, bool) {
	t.Helper()
	key, field := script.RecordsKey(h.Key()), h.Owner()
	switch h.Mode() {
	case script.Write:
		field += ":write"
	case script.Plain, script.Fair:
		key, field = h.Key(), script.RecordField
	}
	return script.ParseRecord(rdb.HGet(t.Context(), key, field).Val())
}

// Graceful makes a Service treat every master as out of its grace period, however young it is.
func Graceful(s *lockcmd.Service) { failover.Rehearsal{Masters: s.Graces}.Never() }

// GraceConfig has a grace period that does not end during a test.
func GraceConfig() lockcmd.Config { return lockcmd.Config{FailoverGrace: time.Hour} }

// BeginGrace makes a Leash treat the master of key as new until end is called.
func BeginGrace(t testing.TB, s *lockcmd.Service, key string) (end func()) {
	t.Helper()
	over := failover.Rehearsal{Masters: s.Graces}.Begin(key, time.Now().Add(Soon))
	if over == nil {
		t.Fatal("nobody serves the key")
	}
	return func() {
		over()
		s.Waits.WakeAll()
	}
}

// Forget deletes everything of a lock in Redis and does what put does, all at once. A check by the
// watchdog between two steps would restore what is missing then.
func Forget(t testing.TB, rdb redis.UniversalClient, key string, put ...func(redis.Cmdable)) {
	t.Helper()
	ctx, keys := context.Background(), KeysOf(t, rdb, key)
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Del(ctx, k)
		}
		for _, f := range put {
			f(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// KeysOf returns the keys of a lock and its helper keys.
func KeysOf(t testing.TB, rdb redis.UniversalClient, key string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	err := Each(rdb, func(c *redis.Client) error {
		for _, pattern := range []string{key, "*{" + key + "}*"} {
			found, err := c.Keys(t.Context(), pattern).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			keys = append(keys, found...)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// UntilText is a time in a tombstone.
var UntilText = regexp.MustCompile(`^until=\d+$`)

// StateOf returns the state of a lock in Redis: types and fields, and the part of each record that
// a restore must reproduce.
func StateOf(t testing.TB, rdb redis.UniversalClient, key string) (lines []string) {
	t.Helper()
	ctx := context.Background()
	for _, k := range KeysOf(t, rdb, key) {
		line := k
		switch kind := rdb.Type(ctx, k).Val(); kind {
		case "hash":
			for field, value := range rdb.HGetAll(ctx, k).Val() {
				if r, ok := script.ParseRecord(value); ok {
					more := UntilText.ReplaceAllString(r.Ext, "-") // this changes with time
					value = strings.Join([]string{strconv.FormatInt(r.Token, 10), r.Carrier,
						strconv.FormatInt(r.TTL, 10), r.Options, more, r.ID, r.Client}, " ")
				}
				lines = append(lines, k+" "+field+" "+value)
			}
			continue
		case "string":
			line += " " + rdb.Get(ctx, k).Val()
		case "zset":
			line += " " + strings.Join(rdb.ZRange(ctx, k, 0, -1).Val(), " ")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// PutOther puts a hold of another owner in the place of h, in a mode that excludes h. With token 0
// it is a hold of Redisson.
func PutOther(rdb redis.Cmdable, h *hold.Hold, token int64) {
	ctx, key := context.Background(), h.Key()
	text := script.RecordPrefix(token, "other:1.1") + "1 1 " + strconv.FormatInt(time.Now().UnixMilli(), 10) +
		" 60000 w - - -"
	if h.Mode() == script.Plain {
		rdb.HSet(ctx, key, "other", "1")
		if token > 0 {
			rdb.HSet(ctx, key, script.RecordField, text)
		}
	} else {
		rdb.HSet(ctx, key, "mode", "write", "other:write", "1")
		if token > 0 {
			rdb.HSet(ctx, script.RecordsKey(key), "other:write", text)
			rdb.PExpire(ctx, script.RecordsKey(key), time.Minute)
		}
	}
	rdb.PExpire(ctx, key, time.Minute)
}

// RestoreArgs say how a Leash restores h on a master.
func RestoreArgs(m failover.Master, h *hold.Hold) *script.RestoreArgs {
	return &script.RestoreArgs{
		Mode: h.Mode(), Master: m.ReplID, GraceEnd: m.ClockGraceEnd, Holds: []script.RestoredHold{h.ToRestore()},
	}
}
