package wait_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"

	"github.com/redis/go-redis/v9"
)

// TestR19ManyClientsOneLock: Many clients on two Leashes acquire one lock, and half of them leave
// at random in every way. There are never two holders, and nothing is left in Redis.
func TestR19ManyClientsOneLock(t *testing.T) {
	t.Parallel()
	clients, rounds := 100, 5
	if testing.Short() {
		clients, rounds = 20, 5
	}
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: 10 * time.Second}
		services := []*lockcmd.Service{locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)}
		key := locktest.NewKey()
		var inside sync.Mutex // locked by the holder; a second holder finds it locked
		var entered atomic.Int64
		var last atomic.Int64
		var wg sync.WaitGroup
		check := func(reply string) {
			if reply != ":1" {
				t.Errorf("release: got %q", reply)
			}
		}
		for i := range clients {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 7))
				for range rounds {
					s := services[random.IntN(2)]
					c := locktest.Connect(t, s)
					dies := i%2 == 0 && random.IntN(3) > 0
					if dies {
						time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, c.Gone)
					}
					args := []string{"LOCK.ACQUIRE", key, "BLOCK", "0"}
					if random.IntN(2) == 0 {
						args = append(args, "OWNER", "me:"+c.Carrier.Name)
					}
					reply := c.Do(args...)
					switch {
					case strings.HasPrefix(reply, ":"):
						if !inside.TryLock() {
							t.Error("two holders")
						}
						token, _ := strconv.ParseInt(reply[1:], 10, 64)
						if before := last.Swap(token); token <= before {
							t.Errorf("got token %d after %d", token, before)
						}
						entered.Add(1)
						inside.Unlock()
						switch random.IntN(3) {
						case 0: // disconnects
						case 1:
							check(c.Do("LOCK.RELEASE", key))
						case 2: // on another connection
							check(locktest.Connect(t, services[random.IntN(2)]).Do("LOCK.RELEASE", key, "TOKEN",
								reply[1:]))
						}
					case !dies:
						t.Errorf("got %q", reply)
					}
					c.Gone()
					c.Carrier.End(lockcmd.Release)
					if len(c.Losses) != 0 {
						t.Errorf("lost %s", <-c.Losses)
					}
				}
			})
		}
		wg.Wait()
		if n := entered.Load(); n < int64(clients*rounds/2) {
			t.Errorf("only %d of %d got in", n, clients*rounds)
		}
		locktest.Eventually(t, 5*time.Second, "nothing is left", func() bool {
			for _, s := range services {
				if s.Stats().Holds != 0 || s.Stats().Waiters != 0 || s.Waiting(locktest.LockOf(key)) != 0 {
					return false
				}
			}
			return !locktest.Exists(t, rdb, key)
		})
		t.Logf("%d entries, %d and %d hand-overs", entered.Load(), services[0].Stats().Handovers,
			services[1].Stats().Handovers)
	})
}
