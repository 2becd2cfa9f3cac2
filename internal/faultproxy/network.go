package faultproxy

import "time"

// This file has the faults of the network between clients and target. They apply to all
// connections, whatever their commands are.

// Way is a direction of the bytes.
type Way int

const (
	ToTarget Way = iota
	ToClient
)

// Side is an end of a connection.
type Side int

const (
	ClientSide Side = iota
	TargetSide
)

// Freeze stops all bytes in both directions. Connections stay, and new ones are still accepted.
// What is sent after Freeze has returned does not arrive before Thaw. What the proxy had already
// read may arrive.
func (p *Proxy) Freeze() {
	p.FreezeWay(ToTarget)
	p.FreezeWay(ToClient)
}

// FreezeWay is Freeze for one direction. Bytes in the other direction still arrive. New connections
// are accepted but not forwarded to the target.
func (p *Proxy) FreezeWay(way Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.thawed[way]) {
		p.thawed[way] = make(chan struct{})
	}
}

// Thaw ends Freeze and FreezeWay.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, thawed := range p.thawed {
		if !isClosed(thawed) {
			close(thawed)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// flowing returns a channel that is closed once bytes may pass that way.
func (p *Proxy) flowing(way Way) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed[way]
}

// Delay makes all bytes that are read from now on arrive later by d, in each direction. 0 ends it.
// It does not limit the bytes in flight, up to 1 MiB in each direction.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) currentDelay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// Throttle limits each direction of each connection to that many bytes a second. 0 ends it.
func (p *Proxy) Throttle(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

func (p *Proxy) currentRate() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate
}

// Cut ends all current connections on both sides, frozen or not, and returns how many. Bytes in
// flight are lost.
func (p *Proxy) Cut(how Ending) int {
	return p.end(func(c *conn) bool { return c.cut(how) })
}

// ResetSide resets one side of all current connections and leaves the other half-open. It discards
// what comes from the open side and sends nothing there, until Cut or until that side ends. It
// returns how many connections it has reset.
func (p *Proxy) ResetSide(side Side) int {
	return p.end(func(c *conn) bool { return c.resetSide(side) })
}

func (p *Proxy) end(f func(*conn) bool) int {
	n := 0
	for _, c := range p.open() {
		if !c.exempt.Load() && f(c) {
			n++
		}
	}
	p.stats.cut.Add(int64(n))
	return n
}
