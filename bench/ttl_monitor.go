package main

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

// A ttlMonitor asks Redis for the remaining TTL of every hold, once in each renewal period. While
// it is sparse, it asks for a hundredth of the holds.
type ttlMonitor struct {
	opt    watchOptions
	routes []route
	cancel context.CancelFunc
	rounds sync.WaitGroup // one goroutine for each node

	sparse atomic.Bool // check only a hundredth of the holds in each period

	mu      sync.Mutex
	numbers [][]int32 // of the holds, by node
	sight   ttlReport
	err     error // of a node that does not answer; it is not checked any more
}

// ttlReport is what the monitor has seen of the holds.
type ttlReport struct {
	looks   int
	least   time.Duration // the shortest remaining TTL
	late    int           // checks of a hold that should have been renewed
	missing int           // checks of a hold that was not there
}

// newTTLMonitor starts a monitor. Close ends it.
func newTTLMonitor(routes []route, opt watchOptions) *ttlMonitor {
	ctx, cancel := context.WithCancel(context.Background())
	m := &ttlMonitor{opt: opt, routes: routes, cancel: cancel, numbers: make([][]int32, len(routes)), sight: ttlReport{least: math.MaxInt64}}
	for i := range routes {
		m.rounds.Go(func() { m.runRounds(ctx, i) })
	}
	return m
}

func (m *ttlMonitor) close() error {
	m.cancel()
	m.rounds.Wait()
	return nil
}

// watch checks these holds from now on.
func (m *ttlMonitor) watch(numbers []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range numbers {
		for i, at := range m.routes {
			if at.owns(holdKey(n)) {
				m.numbers[i] = append(m.numbers[i], int32(n))
			}
		}
	}
}

// report is what the monitor has seen since the last report.
func (m *ttlMonitor) report() (ttlReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.sight
	m.sight = ttlReport{least: math.MaxInt64}
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
func (m *ttlMonitor) runRounds(ctx context.Context, node int) {
	c, err := redistest.Dial(m.routes[node].addr)
	if err == nil {
		defer c.Close()
		if pause(ctx, ttlMonitorPause*time.Duration(node)/time.Duration(len(m.routes))) != nil {
			return
		}
		ticker := time.NewTicker(ttlMonitorPause)
		defer ticker.Stop()
		parts := int(m.opt.period() / ttlMonitorPause)
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
			if m.sparse.Load() { // a fraction of that part, a different one in each period
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

func (m *ttlMonitor) askTTLs(c *redistest.Client, numbers []int32) error {
	var seen ttlReport
	least := int64(math.MaxInt64)
	soon := (m.opt.ttl*2/3 - 500*time.Millisecond).Milliseconds()
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
				seen.missing++
				continue
			case left < soon:
				seen.late++
			}
			least = min(least, left)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sight.looks += seen.looks
	m.sight.late += seen.late
	m.sight.missing += seen.missing
	if least < math.MaxInt64 {
		m.sight.least = min(m.sight.least, time.Duration(least)*time.Millisecond)
	}
	return nil
}
