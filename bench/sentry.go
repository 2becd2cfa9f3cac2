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

// A sentry asks Redis for the remaining TTL of every hold, again and again, each once a renewal
// period, or once in a hundred while it is rare.
type sentry struct {
	opt    watchOptions
	routes []route
	cancel context.CancelFunc
	rounds sync.WaitGroup // one goroutine a node

	rare atomic.Bool // it looks a hundredth as often

	mu      sync.Mutex
	numbers [][]int32 // of the holds, by node
	sight   sight
	err     error // of a node that does not answer: nothing more is seen there
}

// sight is what was seen of the holds.
type sight struct {
	looks   int
	least   time.Duration // the shortest remaining TTL
	late    int           // looks at one that should have been renewed
	missing int           // looks at one that was not there
}

// newSentry begins to look. Close ends it.
func newSentry(routes []route, opt watchOptions) *sentry {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sentry{opt: opt, routes: routes, cancel: cancel, numbers: make([][]int32, len(routes)), sight: sight{least: math.MaxInt64}}
	for i := range routes {
		s.rounds.Go(func() { s.patrol(ctx, i) })
	}
	return s
}

func (s *sentry) close() error {
	s.cancel()
	s.rounds.Wait()
	return nil
}

// watch looks after holds from now on.
func (s *sentry) watch(numbers []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range numbers {
		for i, at := range s.routes {
			if at.owns(holdKey(n)) {
				s.numbers[i] = append(s.numbers[i], int32(n))
			}
		}
	}
}

// report is what was seen since the last report.
func (s *sentry) report() (sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.sight
	s.sight = sight{least: math.MaxInt64}
	return seen, s.err
}

// sentryPause is between two requests of a patrol. Few at a time are asked for, so that acquires do
// not wait for them.
const sentryPause = 10 * time.Millisecond

// rarely is how much less often a hold is looked at while the sentry is rare. A tenth was too much:
// 33 looks at once on each of three nodes. More than one in a hundred of acquires met those, and
// their p99 beside a million holds was 1.36 ms rather than 1.1 (medians of 8 measurements in
// turns).
const rarely = 100

// patrol goes round the holds of a node. The nodes have their turns one after the other.
func (s *sentry) patrol(ctx context.Context, node int) {
	c, err := redistest.Dial(s.routes[node].addr)
	if err == nil {
		defer c.Close()
		if pause(ctx, sentryPause*time.Duration(node)/time.Duration(len(s.routes))) != nil {
			return
		}
		ticker := time.NewTicker(sentryPause)
		defer ticker.Stop()
		parts := int(s.opt.period() / sentryPause)
		for tick := 0; err == nil; tick++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			s.mu.Lock()
			all := s.numbers[node]
			s.mu.Unlock()
			part, of := tick%parts, parts
			if s.rare.Load() { // some of that part, in each period others
				part, of = part*rarely+tick/parts%rarely, of*rarely
			}
			err = s.look(c, all[len(all)*part/of:len(all)*(part+1)/of])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// sentryPipeline keeps requests and replies small enough for the buffers of sockets.
const sentryPipeline = 200

func (s *sentry) look(c *redistest.Client, numbers []int32) error {
	var seen sight
	least := int64(math.MaxInt64)
	soon := (s.opt.ttl*2/3 - 500*time.Millisecond).Milliseconds()
	for len(numbers) > 0 {
		some := numbers[:min(sentryPipeline, len(numbers))]
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sight.looks += seen.looks
	s.sight.late += seen.late
	s.sight.missing += seen.missing
	if least < math.MaxInt64 {
		s.sight.least = min(s.sight.least, time.Duration(least)*time.Millisecond)
	}
	return nil
}
