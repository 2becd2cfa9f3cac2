package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"leash/internal/redistest"
)

// steadyClients share the rate of measureSteady.
const steadyClients = 10

// MeasureSteady takes a lock rate times a second, and releases it at once. For when the time of an
// acquire begins to count, see pacer.
func MeasureSteady(ctx context.Context, addr string, rate int, lasts time.Duration) (*Histogram, error) {
	samples := make([]Histogram, steadyClients)
	errs := make([]error, steadyClients)
	every := steadyClients * time.Second / time.Duration(rate)
	var wg sync.WaitGroup
	for i := range samples {
		wg.Go(func() {
			errs[i] = acquireSteadily(ctx, addr, i, every, lasts, &samples[i])
		})
	}
	wg.Wait()
	sum := &samples[0]
	for i := range samples[1:] {
		sum.Merge(&samples[i+1])
	}
	return sum, errors.Join(errs...)
}

// MeasureDirect sends a script that reads one key to the nodes themselves, rate times a second in
// all. It shows how long an acquire waits for a busy node or core.
func MeasureDirect(ctx context.Context, routes []Route, rate int, lasts time.Duration) (*Histogram, error) {
	samples := make([]Histogram, len(routes))
	errs := make([]error, len(routes))
	every := time.Duration(len(routes)) * time.Second / time.Duration(rate)
	var wg sync.WaitGroup
	for i, at := range routes {
		wg.Go(func() { errs[i] = readSteadily(ctx, at, every, lasts, &samples[i]) })
	}
	wg.Wait()
	sum := &samples[0]
	for i := range samples[1:] {
		sum.Merge(&samples[i+1])
	}
	return sum, errors.Join(errs...)
}

// readSteadily sends the scripts to one node.
func readSteadily(ctx context.Context, at Route, every, lasts time.Duration, h *Histogram) error {
	c, err := redistest.Dial(at.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	key := 0
	for !at.Owns(holdKey(key)) {
		key++
	}
	b := NewPacer(time.Now(), every, lasts)
	for b.Next(ctx) {
		if _, err := c.Do("EVAL", "return redis.call('PTTL', KEYS[1])", "1", holdKey(key)); err != nil {
			return err
		}
		h.Add(time.Since(b.From))
	}
	return context.Cause(ctx)
}

// acquireSteadily runs client number i.
func acquireSteadily(ctx context.Context, addr string, i int, every, lasts time.Duration, h *Histogram) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := NewPacer(time.Now().Add(every*time.Duration(i)/steadyClients), every, lasts)
	for n := i; b.Next(ctx); n += steadyClients {
		if err := ask(c, "LOCK.ACQUIRE", []int{-1 - n}); err != nil {
			return err
		}
		h.Add(time.Since(b.From))
		if err := ask(c, "LOCK.RELEASE", []int{-1 - n}); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
