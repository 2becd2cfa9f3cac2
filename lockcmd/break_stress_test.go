package lockcmd

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
)

// oracle knows who believes that it holds a lock. A second believer is what the locks are there to
// prevent.
type oracle struct {
	t *testing.T

	mu       sync.Mutex
	believer *person
	reported atomic.Int64 // losses
	entered  atomic.Int64
	attached atomic.Int64
	broken   atomic.Int64
}

// person is a client with one identity and one connection after the other. It implements Host for
// each.
type person struct {
	oracle *oracle
	name   string
}

// connection is one of a person's.
type connection struct {
	*person
	carrier *Carrier
	ctx     context.Context
	cut     context.CancelFunc
	once    sync.Once
}

func (c *connection) Lost(_ []byte, _ string) { c.cut(); c.disbelieve(); c.oracle.reported.Add(1) }
func (c *connection) Moved([]byte)            { c.cut() }
func (c *connection) Guard(bool)              {}
func (c *connection) Wait()                   {}
func (c *connection) Pushes() bool            { return false }
func (c *connection) Push([]byte)             {}
func (c *connection) SilentSince() time.Time  { return time.Time{} }
func (c *connection) Client() string          { return "127.0.0.1:1 " + c.name }

func (p *person) connect(s *Service) *connection {
	c := &connection{person: p}
	c.ctx, c.cut = context.WithCancel(context.Background())
	c.carrier = s.NewCarrier(lastConn.Add(1), c)
	return c
}

func (c *connection) do(args ...string) string {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	return strings.TrimSuffix(string(c.carrier.Do(c.ctx, nil, raw)), "\r\n")
}

// end is the end of the connection, for its Leash.
func (c *connection) end(how Ending) { c.once.Do(func() { c.carrier.End(how) }) }

// believe is what the client does with a token. It does not when the connection has been cut
// meanwhile.
func (c *connection) believe() bool {
	o := c.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	if o.believer != nil && o.believer != c.person {
		o.t.Errorf("%s and %s hold the lock", o.believer.name, c.name)
	}
	o.believer = c.person
	return true
}

// disbelieve is the end of what a client was told, on whatever connection. On return it does not
// act on it any more.
func (p *person) disbelieve() {
	o := p.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.believer == p {
		o.believer = nil
	}
}

// TestR27BreakAttachAndFaults lets clients on two Leashes take one lock, carry it from connection
// to connection, break it and cut its lease, while connections to Redis break. Nobody may get the
// lock before its holder has been told.
func TestR27BreakAttachAndFaults(t *testing.T) {
	t.Parallel()
	takesLong(t)
	cfg := Config{WatchdogTimeout: time.Second, UpstreamTimeout: time.Second}
	one, straight, p := faulty(t, cfg, brief)
	two := leash(t, dialServer(t, p.Addr()), cfg, brief)
	services := []*Service{one, two}
	key, o := newKey(), &oracle{t: t}
	stop := make(chan struct{})
	var faults, wg sync.WaitGroup
	faults.Go(func() { breakConnections(p, stop) })
	faults.Go(func() { // an operator
		c := connect(t, straight)
		for {
			select {
			case <-stop:
				return
			case <-time.After(29 * time.Millisecond):
				if n := c.do("LOCK.BREAK", key); n == ":1" || n == ":2" {
					o.broken.Add(1)
				}
			}
		}
	})
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for i := range 12 {
		who := &person{oracle: o, name: "me:" + strconv.Itoa(i)}
		random := rand.New(rand.NewPCG(uint64(i), 11))
		wg.Go(func() {
			for range rounds {
				who.visit(services, key, random)
			}
		})
	}
	wg.Wait()
	close(stop)
	faults.Wait()
	eventually(t, 15*time.Second, "nothing is left", func() bool {
		return !exists(t, straight.rdb, key) && one.Stats().Holds == 0 && two.Stats().Holds == 0
	})
	t.Logf("%d entered, %d attached, %d broken, %d told", o.entered.Load(), o.attached.Load(), o.broken.Load(), o.reported.Load())
	if o.entered.Load() == 0 || o.attached.Load() == 0 || o.broken.Load() == 0 || o.reported.Load() == 0 {
		t.Error("something was never tried")
	}
}

func breakConnections(p *faultproxy.Proxy, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(61 * time.Millisecond):
			p.Cut(faultproxy.FIN)
		}
	}
}

// visit takes the lock, does something with it, and leaves in one way or another.
func (p *person) visit(services []*Service, key string, random *rand.Rand) {
	c := p.connect(services[random.IntN(2)])
	args := []string{"LOCK.ACQUIRE", key, "OWNER", p.name, "BLOCK", "20000"}
	switch random.IntN(4) {
	case 0:
		args = append(args, "ONCLOSE", "EXPIRE")
	case 1:
		args = append(args, "MAXHOLD", strconv.Itoa(1+random.IntN(20)))
	}
	reply := c.do(args...)
	token := strings.TrimPrefix(reply, ":")
	if token == reply || !c.believe() {
		c.end(Expire)
		return
	}
	p.oracle.entered.Add(1)
	for random.IntN(3) > 0 {
		<-time.After(time.Duration(random.IntN(3000)) * time.Microsecond)
		next := p.connect(services[random.IntN(2)])
		if next.do("LOCK.ATTACH", key, "OWNER", p.name, "TOKEN", token) != ":"+token || !next.believe() {
			next.end(Expire)
			continue
		}
		p.oracle.attached.Add(1)
		if random.IntN(2) == 0 {
			c.end(Release) // a FIN of the old connection
		} else {
			defer c.end(Expire)
		}
		c = next
	}
	c.disbelieve()
	switch random.IntN(3) {
	case 0:
		c.end(Release)
	case 1:
		c.do("LOCK.RELEASE", key, "TOKEN", token)
		c.end(Expire)
	default:
		other := p.connect(services[random.IntN(2)])
		other.do("LOCK.RELEASE", key, "OWNER", p.name, "TOKEN", token)
		other.do("LOCK.RELEASE", key, "TOKEN", token)
		other.end(Expire)
		c.end(Release)
	}
}
