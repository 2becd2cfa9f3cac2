package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"leash/internal/redistest"
)

// steadyClients share the rate of measureSteady.
const steadyClients = 10

// measureSteady takes a lock rate times a second, and releases it at once. For when the time of an
// acquire begins to count, see pacer.
func measureSteady(ctx context.Context, addr string, rate int, lasts time.Duration) (*histogram, error) {
	samples := make([]histogram, steadyClients)
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
		sum.merge(&samples[i+1])
	}
	return sum, errors.Join(errs...)
}

// measureDirect sends a script that reads one key to the nodes themselves, rate times a second in
// all. It shows how long an acquire waits for a busy node or core.
func measureDirect(ctx context.Context, routes []route, rate int, lasts time.Duration) (*histogram, error) {
	samples := make([]histogram, len(routes))
	errs := make([]error, len(routes))
	every := time.Duration(len(routes)) * time.Second / time.Duration(rate)
	var wg sync.WaitGroup
	for i, at := range routes {
		wg.Go(func() { errs[i] = readSteadily(ctx, at, every, lasts, &samples[i]) })
	}
	wg.Wait()
	sum := &samples[0]
	for i := range samples[1:] {
		sum.merge(&samples[i+1])
	}
	return sum, errors.Join(errs...)
}

// readSteadily sends the scripts to one node.
func readSteadily(ctx context.Context, at route, every, lasts time.Duration, h *histogram) error {
	c, err := redistest.Dial(at.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	key := 0
	for !at.owns(holdKey(key)) {
		key++
	}
	b := newPacer(time.Now(), every, lasts)
	for b.next(ctx) {
		if _, err := c.Do("EVAL", "return redis.call('PTTL', KEYS[1])", "1", holdKey(key)); err != nil {
			return err
		}
		h.add(time.Since(b.from))
	}
	return context.Cause(ctx)
}

// acquireSteadily runs client number i.
func acquireSteadily(ctx context.Context, addr string, i int, every, lasts time.Duration, h *histogram) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := newPacer(time.Now().Add(every*time.Duration(i)/steadyClients), every, lasts)
	for n := i; b.next(ctx); n += steadyClients {
		if err := ask(c, "LOCK.ACQUIRE", []int{-1 - n}); err != nil {
			return err
		}
		h.add(time.Since(b.from))
		if err := ask(c, "LOCK.RELEASE", []int{-1 - n}); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
