package lockcmd

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func withWay(way string) func(*Service) { return func(s *Service) { s.waits.FairBit = way } }

// waysOf returns through which Leashes a FAIR waiter waits, read from its score.
func waysOf(rdb redis.UniversalClient, key, owner string) float64 {
	_, part := math.Modf(rdb.ZScore(context.Background(), script.QueueKeys(key)[2], owner).Val())
	return part * 1024
}

// TestR22WaiterKeepsItsPlaceThroughAnotherLeash: A client loses its connection and waits again
// through another Leash. It keeps its place when the first Leash notices the disconnect.
func TestR22WaiterKeepsItsPlaceThroughAnotherLeash(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, withWay("512")), leash(t, rdb, Config{}, withWay("1")), newKey()
		holder, a, b, c := connect(t, other), connect(t, s), connect(t, other), connect(t, other)
		holder.token(key)
		cut := a.waitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		behind := b.waitFair(rdb, 2, key, "OWNER", "me:2", "BLOCK", "0")
		reply := c.start("LOCK.ACQUIRE", key, "FAIR", "OWNER", "me:1", "BLOCK", "0")
		eventually(t, 5*time.Second, "it is known through both Leashes", func() bool {
			return waysOf(rdb, key, "me:1") == 513
		})
		a.gone()
		a.carrier.End(Release)
		receive(t, cut, 3*time.Second)
		eventually(t, 5*time.Second, "it is known through one Leash", func() bool {
			return waysOf(rdb, key, "me:1") == 1
		})
		if got := order(rdb, key); !slices.Equal(got, []string{"me:1", "me:2"}) {
			t.Errorf("got queue %v", got)
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, reply, 3*time.Second))
		want(t, c.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, behind, 3*time.Second))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

func TestR22WaiterOfTwoLeashesIsDequeuedByTheLast(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, withWay("2")), leash(t, rdb, Config{}, withWay("8")), newKey()
		holder, a, b := connect(t, s), connect(t, s), connect(t, other)
		holder.token(key)
		a.waitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		b.start("LOCK.ACQUIRE", key, "FAIR", "OWNER", "me:1", "BLOCK", "0")
		eventually(t, 5*time.Second, "it is known through both Leashes", func() bool {
			return waysOf(rdb, key, "me:1") == 10
		})
		b.gone()
		eventually(t, 5*time.Second, "it is known through one Leash", func() bool {
			return waysOf(rdb, key, "me:1") == 2
		})
		if got := order(rdb, key); !slices.Equal(got, []string{"me:1"}) {
			t.Errorf("got queue %v", got)
		}
		a.gone()
		wantNothingLeft(t, rdb, script.QueueKeys(key)[0])
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

// TestR22DeadLeashKeepsNoPlace: A waiter waits through two Leashes, and one of them has died. When
// the waiter gives up, it stays in the queue until it counts as dead.
func TestR22DeadLeashKeepsNoPlace(t *testing.T) {
	t.Parallel()
	takesLong(t)
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}, withWay("4")), newKey(), context.Background()
		holder, a, b := connect(t, s), connect(t, s), connect(t, s)
		holder.token(key)
		a.waitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		reply := b.waitFair(rdb, 2, key, "OWNER", "me:2", "BLOCK", "0")
		rdb.ZIncrBy(ctx, script.QueueKeys(key)[2], 0.5, "me:1")
		eventually(t, 5*time.Second, "its heartbeat is renewed", func() bool { return waysOf(rdb, key, "me:1") == 516 })
		a.gone()
		eventually(t, 5*time.Second, "it has left", func() bool { return waysOf(rdb, key, "me:1") == 512 })
		if left := rdb.ZScore(ctx, script.QueueKeys(key)[2],
			"me:1").Val() - float64(rdb.Time(ctx).Val().UnixMilli()); left > wait.FairTimeout.Seconds()*1000+1 {
			t.Errorf("it stands there for %v ms yet", left)
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, reply, 15*time.Second))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

// TestR22ScoreCorrectionKeepsTheWays: Leash lowers scores after a clock was set back, and raises
// them after Redis was away. The ways stored in a score stay the same.
func TestR22ScoreCorrectionKeepsTheWays(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}, withWay("4")), newKey(), context.Background()
		holder, a := connect(t, s), connect(t, s)
		holder.token(key)
		reply := a.waitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		waiters, now := script.QueueKeys(key)[2], float64(time.Now().UnixMilli())
		rdb.RPush(ctx, script.QueueKeys(key)[0], "me:2")
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now + 600000, Member: "me:2"})
		rdb.ZAdd(ctx, waiters, redis.Z{Score: now + 3.6e6 + 0.75, Member: "me:1"},
			redis.Z{Score: now + 3.6e6 + 0.5, Member: "me:2"})
		connect(t, s).do("LOCK.ACQUIRE", key, "FAIR", "OWNER", "me:3") // checks the first waiter
		if got := waysOf(rdb, key, "me:2"); got != 512 || rdb.ZScore(ctx, waiters, "me:2").Val() > now+60000 {
			t.Errorf("lowered, got ways %v", got)
		}
		rdb.ZAdd(ctx, waiters, redis.Z{Score: now - 1000, Member: "me:1"}, redis.Z{Score: now - 900.75, Member: "me:2"})
		eventually(t, 5*time.Second, "the waiter that was lowered with it gets more time", func() bool {
			return rdb.ZScore(ctx, waiters, "me:2").Val() > now
		})
		if got := waysOf(rdb, key, "me:2"); got != 256 {
			t.Errorf("raised, got ways %v", got)
		}
		a.gone()
		a.carrier.End(Release)
		receive(t, reply, 3*time.Second)
		rdb.Del(ctx, script.QueueKeys(key)...)
	})
}
