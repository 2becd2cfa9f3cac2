package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/redistest"
)

// A TTLMonitor asks Redis for the remaining TTL of every hold, once in each renewal period. While
// it is sparse, it asks for a hundredth of the holds.
type TTLMonitor struct {
	ttl    time.Duration // of the holds
	Routes []Route
	cancel context.CancelFunc
	rounds sync.WaitGroup // one goroutine for each node

	Sparse atomic.Bool // check only a hundredth of the holds in each period

	mu      sync.Mutex
	numbers [][]int32 // of the holds, by node
	sight   TTLReport
	err     error // of a node that does not answer; it is not checked any more
}

// TTLReport is what the monitor has seen of the holds.
type TTLReport struct {
	looks   int
	Least   time.Duration // the shortest remaining TTL
	Late    int           // checks of a hold that should have been renewed
	Missing int           // checks of a hold that was not there
}

// NewTTLMonitor starts a monitor. Close ends it.
func NewTTLMonitor(routes []Route, ttl time.Duration) *TTLMonitor {
	ctx, cancel := context.WithCancel(context.Background())
	m := &TTLMonitor{ttl: ttl, Routes: routes, cancel: cancel, numbers: make([][]int32, len(routes)), sight: TTLReport{Least: math.MaxInt64}}
	for i := range routes {
		m.rounds.Go(func() { m.runRounds(ctx, i) })
	}
	return m
}

// Close ends the checks and waits for their end.
func (m *TTLMonitor) Close() error {
	m.cancel()
	m.rounds.Wait()
	return nil
}

// Watch checks these holds from now on.
func (m *TTLMonitor) Watch(numbers []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range numbers {
		for i, at := range m.Routes {
			if at.Owns(holdKey(n)) {
				m.numbers[i] = append(m.numbers[i], int32(n))
			}
		}
	}
}

// Report is what the monitor has seen since the last report.
func (m *TTLMonitor) Report() (TTLReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.sight
	m.sight = TTLReport{Least: math.MaxInt64}
	return seen, m.err
}

// ttlMonitorPause is the time between two requests of a round. Each request asks for few TTLs, so
// that acquires do not wait for it.
const ttlMonitorPause = 10 * time.Millisecond

// sparseFactor is how many times fewer holds a sparse monitor checks. Ten was too few: the monitor
// then made 33 checks at once on each of three nodes. More than 1 % of the acquires waited for
// those. Their p99 beside a million holds was 1.36 ms rather than 1.1 (medians of 8 measurements,
// alternating).
const sparseFactor = 100

// runRounds checks the holds of a node, again and again. The nodes alternate.
func (m *TTLMonitor) runRounds(ctx context.Context, node int) {
	c, err := redistest.Dial(m.Routes[node].Addr)
	if err == nil {
		defer c.Close()
		if Pause(ctx, ttlMonitorPause*time.Duration(node)/time.Duration(len(m.Routes))) != nil {
			return
		}
		ticker := time.NewTicker(ttlMonitorPause)
		defer ticker.Stop()
		parts := int(m.ttl / 3 / ttlMonitorPause)
		for tick := 0; err == nil; tick++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			m.mu.Lock()
			all := m.numbers[node]
			m.mu.Unlock()
			part, of := tick%parts, parts
			if m.Sparse.Load() { // a fraction of that part, a different one in each period
				part, of = part*sparseFactor+tick/parts%sparseFactor, of*sparseFactor
			}
			err = m.askTTLs(c, all[len(all)*part/of:len(all)*(part+1)/of])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = errors.Join(m.err, err)
}

// ttlMonitorPipeline keeps requests and replies smaller than socket buffers.
const ttlMonitorPipeline = 200

func (m *TTLMonitor) askTTLs(c *redistest.Client, numbers []int32) error {
	var seen TTLReport
	least := int64(math.MaxInt64)
	soon := (m.ttl*2/3 - 500*time.Millisecond).Milliseconds()
	for len(numbers) > 0 {
		some := numbers[:min(ttlMonitorPipeline, len(numbers))]
		numbers = numbers[len(some):]
		var request strings.Builder
		for _, n := range some {
			request.WriteString(redistest.Command("PTTL", holdKey(int(n))))
		}
		if err := c.Send(request.String()); err != nil {
			return err
		}
		for range some {
			reply, err := c.Read()
			if err != nil {
				return err
			}
			left, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(reply, ":")), 10, 64)
			if err != nil {
				return fmt.Errorf("PTTL was answered %q", reply)
			}
			seen.looks++
			switch {
			case left < 0:
				seen.Missing++
				continue
			case left < soon:
				seen.Late++
			}
			least = min(least, left)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sight.looks += seen.looks
	m.sight.Late += seen.Late
	m.sight.Missing += seen.Missing
	if least < math.MaxInt64 {
		m.sight.Least = min(m.sight.Least, time.Duration(least)*time.Millisecond)
	}
	return nil
}
