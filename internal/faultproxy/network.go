package faultproxy

import "time"

// What a Proxy can do to the network between its clients and its target: to all connections,
// whatever is said on them.

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

// Freeze stops all bytes in both directions, while connections stay and new ones are still
// accepted. What is sent after Freeze has returned does not arrive before Thaw; what the proxy had
// already read may.
func (p *Proxy) Freeze() {
	p.FreezeWay(ToTarget)
	p.FreezeWay(ToClient)
}

// FreezeWay is Freeze for one direction: what is sent the other way arrives, and nobody learns
// whether it did. New connections come no further than to the proxy.
func (p *Proxy) FreezeWay(way Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.thawed[way]) {
		p.thawed[way] = make(chan struct{})
	}
}

// Thaw lets the bytes go on that Freeze or FreezeWay has stopped.
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

// Delay makes all bytes read from now on arrive later by d, each way; 0 ends it. It does not limit
// how many bytes are on their way, up to 1 MiB a direction.
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

// Throttle lets no more than so many bytes a second pass, each way of each connection; 0 ends it.
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

// Cut ends all connections there are, on both sides, frozen or not, and returns how many. Bytes on
// their way are lost.
func (p *Proxy) Cut(how Ending) int {
	return p.end(func(c *conn) bool { return c.cut(how) })
}

// Sever resets one side of all connections there are and leaves the other half-open: what comes
// from there is swallowed, and nothing is said to it until Cut or its own end. It returns how many.
func (p *Proxy) Sever(side Side) int {
	return p.end(func(c *conn) bool { return c.sever(side) })
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
