package locktest

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// JavaPermit writes a permit as Redisson does. Its lease ends at end, or never.
func JavaPermit(t testing.TB, rdb redis.UniversalClient, key, permit string, end time.Time) {
	t.Helper()
	score := 922337203685477.0
	if !end.IsZero() {
		score = float64(end.UnixMilli())
	}
	raw, err := hex.DecodeString(permit)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	rdb.DecrBy(ctx, key, 1)
	if err := rdb.ZAdd(ctx, script.PermitsKey(key), redis.Z{Score: score, Member: string(raw)}).Err(); err != nil {
		t.Fatal(err)
	}
}

// PermitNumber is the n-th permit of a test.
func PermitNumber(n int) string { return fmt.Sprintf("%032x", n) }
