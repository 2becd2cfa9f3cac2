package faultproxy

import (
	"sync/atomic"
	"time"
)

// This file decides when the bytes of a connection may pass.

// admit waits until s may be written. It returns false when the connection ends first.
func (c *conn) admit(way Way, s segment) bool {
	if s.gate != nil && !c.await(s.gate) {
		return false
	}
	if c.exempt.Load() {
		return true
	}
	return c.sleep(time.Until(s.due)) && c.awaitFlow(way)
}

// sleep returns after d, or with false when the connection ends.
func (c *conn) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// awaitFlow waits while the proxy is frozen in that direction. It returns false when the connection
// ends or is half-open.
func (c *conn) awaitFlow(way Way) bool {
	if c.exempt.Load() {
		return !c.isDone()
	}
	for {
		flowing := c.proxy.flowing(way)
		if !c.await(flowing) {
			return false
		}
		if c.halfOpen.Load() {
			return false
		}
		if flowing == c.proxy.flowing(way) {
			return true
		}
	}
}

func (c *conn) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await waits for ch to be closed. It returns false when the connection ends.
func (c *conn) await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return !c.isDone()
	case <-c.done:
		return false
	}
}

// throttled writes b, in pieces if there is a rate, and counts the bytes. It returns early when the
// connection ends.
func (c *conn) throttled(b []byte, write func([]byte) (int, error), count *atomic.Int64) {
	for len(b) > 0 {
		rate, piece := c.proxy.currentRate(), b
		if c.exempt.Load() {
			rate = 0
		}
		if rate > 0 {
			piece = b[:min(len(b), max(rate/pieces, 1))]
		}
		n, err := write(piece)
		count.Add(int64(n))
		if err != nil || rate > 0 && !c.sleep(time.Duration(n)*time.Second/time.Duration(rate)) {
			return
		}
		b = b[n:]
	}
}

// pieces is how many writes a second throttled makes when there is a rate.
const pieces = 50
