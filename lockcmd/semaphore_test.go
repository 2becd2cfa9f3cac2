package lockcmd

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// semaphoreInfo runs SEM.INFO.
func (c *conn) semaphoreInfo(key string) (total, available, held, waiters int) {
	c.t.Helper()
	_, err := fmt.Sscanf(c.do("SEM.INFO", key),
		"*8\r\n$5\r\ntotal\r\n:%d\r\n$9\r\navailable\r\n:%d\r\n$4\r\nheld\r\n:%d\r\n$7\r\nwaiters\r\n:%d",
		&total, &available, &held, &waiters)
	if err != nil {
		c.t.Fatalf("SEM.INFO: %q", c.do("SEM.INFO", key))
	}
	return total, available, held, waiters
}

func (c *conn) wantSemaphoreInfo(key string, total, available, held int) {
	c.t.Helper()
	if t, a, h, _ := c.semaphoreInfo(key); t != total || a != available || h != held {
		c.t.Fatalf("got total %d, available %d, held %d, want %d, %d, %d", t, a, h, total, available, held)
	}
}

// javaPermit writes a permit as Redisson does. Its lease ends at end, or never.
func javaPermit(t testing.TB, rdb redis.UniversalClient, key, permit string, end time.Time) {
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

func permitNumber(n int) string { return fmt.Sprintf("%032x", n) }

func TestSemaphoreTotal(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a, heard := connect(t, s), listenTo(t, rdb, "redisson_sc:{"+key+"}")
		a.wantSemaphoreInfo(key, 0, 0, 0)
		want(t, a.do("SEM.INIT", key, "3"), ":1")
		wantMessage(t, heard, "3")
		want(t, a.do("SEM.INIT", key, "5"), ":0")
		want(t, rdb.Get(ctx, key).Val(), "3")
		javaPermit(t, rdb, key, permitNumber(1), time.Time{})
		javaPermit(t, rdb, key, permitNumber(2), time.Now().Add(time.Hour))
		a.wantSemaphoreInfo(key, 3, 1, 2)
		want(t, a.do("SEM.RESIZE", key, "3"), ":1") // unchanged, so no message is sent
		want(t, a.do("SEM.RESIZE", key, "10"), ":8")
		wantMessage(t, heard, "10")
		want(t, a.do("SEM.RESIZE", key, "1"), ":-1") // fewer than the permits in use
		wantMessage(t, heard, "1")
		a.wantSemaphoreInfo(key, 1, -1, 2)
		want(t, a.do("SEM.TAKE", key), ":0")
		wantNoMessage(t, heard)
		fresh := newKey()
		want(t, a.do("SEM.RESIZE", fresh, "7"), ":7")
		want(t, rdb.Get(ctx, fresh).Val(), "7")
		rdb.Del(ctx, key)
		rdb.RPush(ctx, key, "x")
		for _, args := range [][]string{{"SEM.INIT", key, "1"}, {"SEM.RESIZE", key, "1"}, {"SEM.INFO", key}} {
			want(t, a.do(args...), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		rdb.Del(ctx, key, script.PermitsKey(key))
		rdb.Set(ctx, script.PermitsKey(key), "x", 0)
		want(t, a.do("SEM.RESIZE", key, "1"), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		if exists(t, rdb, key) {
			t.Error("a refused command had an effect")
		}
	})
}

// TestSemaphoreReapsExpiredPermits: A permit whose lease has expired is available again, whoever
// acquired it.
func TestSemaphoreReapsExpiredPermits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		const total = 1500 // more than one script call reaps
		want(t, a.do("SEM.INIT", key, strconv.Itoa(total)), ":1")
		rdb.DecrBy(ctx, key, total)
		for i := range total {
			rdb.ZAdd(ctx, script.PermitsKey(key), redis.Z{Score: float64(i + 1), Member: fmt.Sprintf("%016d", i)})
		}
		heard := listenTo(t, rdb, script.PermitChannel(key))
		a.wantSemaphoreInfo(key, total, total, 0)
		want(t, rdb.Get(ctx, key).Val(), "0") // SEM.INFO changes nothing
		want(t, a.do("SEM.RESIZE", key, strconv.Itoa(total)), ":1000")
		wantMessage(t, heard, "1000")
		want(t, a.do("SEM.RESIZE", key, strconv.Itoa(total)), ":1500")
		wantMessage(t, heard, "1500")
		if n := rdb.ZCard(ctx, script.PermitsKey(key)).Val(); n != 0 {
			t.Errorf("%d permits are still out", n)
		}
	})
}

// TestSemaphoreResizeServesWaiters: A resize sends one message, which serves as many waiters as
// there are permits.
func TestSemaphoreResizeServesWaiters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)
		key, a := semaphore(t, s, 1), connect(t, s)
		a.permit(key)
		var replies []<-chan string
		for i := range 3 {
			replies = append(replies, connect(t, other).startInQueue(other, i+1, permitsOf(key), "SEM.ACQUIRE", key,
				"BLOCK", "0"))
		}
		eventually(t, 5*time.Second, "it listens", func() bool {
			return listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		want(t, a.do("SEM.RESIZE", key, "3"), ":2")
		permitOf(t, woken(t, replies[0]))
		permitOf(t, woken(t, replies[1]))
		_, _, _, waiters := connect(t, other).semaphoreInfo(key)
		if waiters != 1 || len(replies[2]) != 0 {
			t.Errorf("%d wait, want the third", waiters)
		}
		want(t, a.do("SEM.RESIZE", key, "4"), ":1")
		permitOf(t, receive(t, replies[2], 5*time.Second))
	})
}

// TestSemaphoreOfZeroAndOfTheMaximum: Semaphores of zero permits, and of the most that Redisson can
// count. (testZero, testConcurrencyLoopMax_MultiInstance)
func TestSemaphoreOfZeroAndOfTheMaximum(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}
		none, a := semaphore(t, leashes[0], 0), connect(t, leashes[0])
		a.wantSemaphoreInfo(none, 0, 0, 0)
		want(t, a.do("SEM.INIT", none, "1"), ":0")
		want(t, a.do("SEM.ACQUIRE", none), "$-1")
		want(t, a.do("SEM.TAKE", none), ":0")
		reply := a.startInQueue(leashes[0], 1, permitsOf(none), "SEM.ACQUIRE", none, "BLOCK", "0")
		want(t, connect(t, leashes[1]).do("SEM.RESIZE", none, "1"), ":1")
		permitOf(t, receive(t, reply, 5*time.Second))
		a.wantSemaphoreInfo(none, 1, 0, 1)

		const all = math.MaxInt32
		most := semaphore(t, leashes[0], all)
		want(t, a.do("SEM.ACQUIRE", most, "COUNT", "1001"), "-"+refusal.Count)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				c := connect(t, leashes[i%2])
				for range 10 {
					if reply := c.do("SEM.ACQUIRE", most, "BLOCK", "0"); !permitReply.MatchString(reply) {
						t.Errorf("got %q", reply)
					}
					if reply := c.do("SEM.TAKE", most, "1000000"); reply != ":1" {
						t.Errorf("got %q", reply)
					}
					c.do("SEM.GIVE", most, "1000000")
					if reply := c.do("SEM.RELEASE", most); reply != ":1" {
						t.Errorf("got %q", reply)
					}
				}
			})
		}
		clients.Wait()
		a.wantSemaphoreInfo(most, all, all, 0)
		want(t, a.do("SEM.TAKE", most, strconv.Itoa(all)), ":1")
		want(t, a.do("SEM.TAKE", most), ":0")
	})
}
