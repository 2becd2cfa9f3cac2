package acquire_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
)

// beliefs knows which client acts as the holder of which key.
type beliefs struct {
	t      *testing.T
	mu     sync.Mutex
	holder map[string]*locktest.Client
}

// begin makes c the holder of keys.
func (b *beliefs) begin(c *locktest.Client, keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if other := b.holder[key]; other != nil && len(other.Losses) == 0 {
			b.t.Errorf("two hold %s", key)
		}
		b.holder[key] = c
	}
}

func (b *beliefs) end(keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		delete(b.holder, key)
	}
}

// TestSeveralLocksOfAFaultyRedis: Requests and replies get lost at random. There are never two
// holders of a key, and nothing stays acquired.
func TestSeveralLocksOfAFaultyRedis(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{WatchdogTimeout: 6 * time.Second,
		UpstreamTimeout: time.Second})
	rdb, keys := locktest.RedisOf(straight), locktest.NewKeys(5)
	believed := &beliefs{t: t, holder: make(map[string]*locktest.Client)}
	end := time.Now().Add(6 * time.Second)
	const enoughGrants, enoughFaults = 8, 20 // each fault stops all that share the connection
	var granted, struck atomic.Int64
	goOn := func() bool { // a busy machine needs longer
		return time.Now().Before(end) || (granted.Load() < enoughGrants || struck.Load() < enoughFaults) &&
			time.Now().Before(end.Add(locktest.Soon))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		scripts := faultproxy.Named("EVALSHA", "EVAL")
		for n := 0; goOn(); n++ {
			arm := []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropBefore, p.DropAfter,
				p.HoldBefore, p.HoldAfter}[n%4]
			fault := arm(scripts, faultproxy.Times(1+rand.IntN(12)))
			<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
			if n%4 >= 2 && n%3 == 0 { // longer than any request waits for an answer
				<-time.After(1200 * time.Millisecond)
			}
			fault.Disarm()
			fault.Release()
			struck.Add(int64(fault.Count()))
		}
	})
	var mu sync.Mutex
	answers := make(map[string]int)
	for n := range 8 {
		service := s
		if n%4 == 3 {
			service = straight
		}
		wg.Go(func() {
			for goOn() {
				c := locktest.Connect(t, service)
				mine := slices.Clone(keys)
				rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				options := []string{"BLOCK", strconv.Itoa(1 + rand.IntN(500))}
				if rand.IntN(2) == 0 {
					options = append(options, "QUORUM", "3")
				} else {
					mine = mine[:2+rand.IntN(3)]
				}
				switch rand.IntN(4) {
				case 0:
					options = options[2:]
				case 1:
					options = append(options, "LEASE", "3000")
				case 2:
					options = append(options, "OWNER", "o"+strconv.Itoa(n))
				}
				reply := c.Do(locktest.Several("LOCK.MACQUIRE", mine, options...)...)
				if !strings.HasPrefix(reply, "*") || reply == locktest.Null {
					mu.Lock()
					answers[reply]++
					mu.Unlock()
					c.Carrier.End(lockcmd.Expire)
					continue
				}
				var got []string
				for i, token := range locktest.TokensOf(t, reply, len(mine)) {
					if token != 0 {
						got = append(got, mine[i])
					}
				}
				believed.begin(c, got)
				<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond)
				believed.end(got)
				released := c.Do(locktest.Several("LOCK.MRELEASE", got)...)
				granted.Add(1)
				mu.Lock()
				answers["after a grant: "+released]++
				mu.Unlock()
				c.Carrier.End(lockcmd.Release)
			}
		})
	}
	wg.Wait()
	t.Logf("%d grants, %d faults; %v", granted.Load(), struck.Load(), answers)
	if granted.Load() < enoughGrants || struck.Load() < enoughFaults {
		t.Errorf("only %d grants and %d faults", granted.Load(), struck.Load())
	}
	for _, key := range keys {
		locktest.Eventually(t, 20*time.Second, key+" is free", func() bool { return !locktest.Exists(t, rdb, key) })
	}
	locktest.Eventually(t, 5*time.Second, "nothing is held",
		func() bool { return s.Stats().Holds+straight.Stats().Holds == 0 })
	if n := s.Stats().Waiters + straight.Stats().Waiters; n != 0 {
		t.Errorf("%d waiters", n)
	}
}
