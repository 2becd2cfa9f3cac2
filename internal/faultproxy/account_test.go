package faultproxy_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
)

// TestCountsAddUp lets many workers increment a counter while faults happen. Each increment must be
// acknowledged, executed with its reply lost, or never executed.
func TestCountsAddUp(t *testing.T) {
	const workers, each, faults = 16, 100, 40
	s, p := start(t)
	before := p.DropBefore(faultproxy.Named("INCR"), faultproxy.Times(faults))
	after := p.DropAfter(faultproxy.Named("INCR"), faultproxy.Times(faults), faultproxy.EndBy(faultproxy.RST))
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, PoolSize: workers})
	t.Cleanup(func() { client.Close() })

	var acknowledged, failed atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if client.Incr(t.Context(), "n").Err() == nil {
					acknowledged.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if before.Count() != faults || after.Count() != faults || failed.Load() != 2*faults {
		t.Errorf("triggered %d and %d times, %d failed; want %d, %d, %d",
			before.Count(), after.Count(), failed.Load(), faults, faults, 2*faults)
	}
	got, err := s.Client().Get(t.Context(), "n").Int64()
	if want := acknowledged.Load() + faults; got != want || err != nil {
		t.Errorf("got %d increments, %v; want %d acknowledged and %d lost", got, err, acknowledged.Load(), faults)
	}
}
