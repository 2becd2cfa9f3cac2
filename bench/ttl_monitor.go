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

// A ttlMonitor asks Redis for the remaining TTL of every hold, again and again, each once a renewal
// period, or once in a hundred while it is rare.
type ttlMonitor struct {
	opt    watchOptions
	routes []route
	cancel context.CancelFunc
	rounds sync.WaitGroup // one goroutine a node

	rare atomic.Bool // it looks a hundredth as often

	mu      sync.Mutex
	numbers [][]int32 // of the holds, by node
	sight   sighting
	err     error // of a node that does not answer: nothing more is seen there
}

// sighting is what was seen of the holds.
type sighting struct {
	looks   int
	least   time.Duration // the shortest remaining TTL
	late    int           // looks at one that should have been renewed
	missing int           // looks at one that was not there
}

// newTTLMonitor begins to look. Close ends it.
func newTTLMonitor(routes []route, opt watchOptions) *ttlMonitor {
	ctx, cancel := context.WithCancel(context.Background())
	m := &ttlMonitor{opt: opt, routes: routes, cancel: cancel, numbers: make([][]int32, len(routes)), sight: sighting{least: math.MaxInt64}}
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

// watch looks after holds from now on.
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

// report is what was seen since the last report.
func (m *ttlMonitor) report() (sighting, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.sight
	m.sight = sighting{least: math.MaxInt64}
	return seen, m.err
}

// ttlMonitorPause is between two requests of a round. Few at a time are asked for, so that acquires
// do not wait for them.
const ttlMonitorPause = 10 * time.Millisecond

// rarely is how much less often a hold is looked at while the monitor is rare. A tenth was too
// much: 33 looks at once on each of three nodes. More than one in a hundred of acquires met those,
// and their p99 beside a million holds was 1.36 ms rather than 1.1 (medians of 8 measurements in
// turns).
const rarely = 100

// runRounds goes round the holds of a node. The nodes have their turns one after the other.
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
			if m.rare.Load() { // some of that part, in each period others
				part, of = part*rarely+tick/parts%rarely, of*rarely
			}
			err = m.askTTLs(c, all[len(all)*part/of:len(all)*(part+1)/of])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = errors.Join(m.err, err)
}

// ttlMonitorPipeline keeps requests and replies small enough for the buffers of sockets.
const ttlMonitorPipeline = 200

func (m *ttlMonitor) askTTLs(c *redistest.Client, numbers []int32) error {
	var seen sighting
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
