package history

import (
	"strings"
	"testing"
	"time"
)

// TestLingered: a released lock must not come back. A renewal that does not check the owner would
// bring it back. No lock may stay longer than its lease.
func TestLingered(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, row := range []struct {
		name     string
		k        RedisHold
		seen     []int
		failover bool
		want     string
	}{
		{"released, and gone", RedisHold{ended: after(1), released: after(2)}, []int{0, 1}, false, ""},
		{"renewed after the release", RedisHold{ended: after(1), released: after(2)}, []int{1, 3}, false, "was released before"},
		{"a failover forgot the release", RedisHold{ended: after(1), released: after(2)}, []int{1, 3}, true, ""},
		{"expires", RedisHold{ended: after(1)}, []int{1, 3, 4}, false, ""},
		{"does not expire", RedisHold{ended: after(1)}, []int{1, 4, 8}, false, "is in Redis 7s later"},
		{"the grant came long after the belief in it had ended", RedisHold{ended: after(1), Got: after(4)}, []int{4, 8}, false, ""},
	} {
		h := NewHistory(&FaultTimeline{})
		if row.failover {
			h.forgets = []*interval{{to: Never, failover: true}}
		}
		row.k.Hold, row.k.Base = 1, TTL
		h.redisHolds["lock:1 7"] = &row.k
		for _, s := range row.seen {
			h.NoteSeen("lock:1", "7", after(s))
		}
		_, _, err := h.LongestAfterEnd()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
	}
}

// TestOrphanExpires: a grant that no client was told of must expire as well.
func TestOrphanExpires(t *testing.T) {
	h := NewHistory(&FaultTimeline{})
	start := time.Now()
	h.NoteSeen("lock:1", "9", start)
	h.NoteSeen("lock:1", "9", start.Add(TTL))
	if _, _, err := h.LongestAfterEnd(); err != nil {
		t.Error(err)
	}
	h.NoteSeen("lock:1", "9", start.Add(time.Minute))
	if _, _, err := h.LongestAfterEnd(); err == nil {
		t.Error("a lock was there for a minute: got no error")
	}
}
