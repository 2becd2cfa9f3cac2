package release_test

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
	"leash/internal/locktest"
	"leash/lockcmd"
)

// holderCheck knows which client acts as the holder of the lock. It fails the test when there is a
// second one.
type holderCheck struct {
	t *testing.T

	mu       sync.Mutex
	holder   *testClient
	reported atomic.Int64 // losses reported to clients
	entered  atomic.Int64
	attached atomic.Int64
	broken   atomic.Int64
}

// testClient is a client with one owner ID. It uses one connection after another.
type testClient struct {
	holderCheck *holderCheck
	name        string
}

// connection is one connection of a testClient. It implements Host.
type connection struct {
	*testClient
	carrier *lockcmd.Carrier
	ctx     context.Context
	cut     context.CancelFunc
	once    sync.Once
}

func (c *connection) End(_ []byte, reason string) {
	c.cut()
	if reason != lockcmd.ReasonMoved {
		c.stopHolding()
		c.holderCheck.reported.Add(1)
	}
}
func (c *connection) Watch(lockcmd.Attention) {}
func (c *connection) Push([]byte) bool        { return false }
func (c *connection) SilentSince() time.Time  { return time.Time{} }

func (p *testClient) connect(s *lockcmd.Service) *connection {
	c := &connection{testClient: p}
	c.ctx, c.cut = context.WithCancel(context.Background())
	c.carrier = s.NewCarrier(locktest.LastConn.Add(1), lockcmd.Client{Name: "127.0.0.1:1 " + c.name}, c, c)
	return c
}

func (c *connection) do(args ...string) string {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	return strings.TrimSuffix(string(c.carrier.Do(c.ctx, nil, raw)), "\r\n")
}

// end ends the connection, as Leash sees it.
func (c *connection) end(how lockcmd.Ending) { c.once.Do(func() { c.carrier.End(how) }) }

// startHolding makes the client act as the holder. It reports false if the connection was closed
// before that.
func (c *connection) startHolding() bool {
	o := c.holderCheck
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	if o.holder != nil && o.holder != c.testClient {
		o.t.Errorf("%s and %s hold the lock", o.holder.name, c.name)
	}
	o.holder = c.testClient
	return true
}

// stopHolding makes the client stop acting as the holder. When it returns, the client does nothing
// more with the lock.
func (p *testClient) stopHolding() {
	o := p.holderCheck
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holder == p {
		o.holder = nil
	}
}

// TestR27BreakAttachAndFaults: Clients on two Leashes acquire one lock, attach it to new
// connections, break it and shorten its lease, while connections to Redis break. Nobody may get the
// lock before its holder was told of the loss.
func TestR27BreakAttachAndFaults(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	cfg := lockcmd.Config{WatchdogTimeout: 6 * time.Second, UpstreamTimeout: time.Second}
	one, straight, p := locktest.StartFaulty(t, cfg, locktest.DefaultBreakTimeout)
	two := locktest.Start(t, locktest.DialServer(t, p.Addr()), cfg, locktest.DefaultBreakTimeout)
	services := []*lockcmd.Service{one, two}
	key, o := locktest.NewKey(), &holderCheck{t: t}
	stop := make(chan struct{})
	var faults, wg sync.WaitGroup
	faults.Go(func() { breakConnections(p, stop) })
	faults.Go(func() { // an operator who breaks and extends
		c := locktest.Connect(t, straight)
		for {
			select {
			case <-stop:
				return
			case <-time.After(29 * time.Millisecond):
				if n := c.Do("LOCK.BREAK", key); n == ":1" || n == ":2" {
					o.broken.Add(1)
				}
			}
		}
	})
	for i := range 12 {
		who := &testClient{holderCheck: o, name: "me:" + strconv.Itoa(i)}
		random := rand.New(rand.NewPCG(uint64(i), 11))
		wg.Go(func() {
			for range 8 {
				who.useLock(services, key, random)
			}
		})
	}
	wg.Wait()
	close(stop)
	faults.Wait()
	locktest.Eventually(t, 15*time.Second, "nothing is left", func() bool {
		return !locktest.Exists(t, locktest.RedisOf(straight), key) && one.Stats().Holds == 0 && two.Stats().Holds == 0
	})
	t.Logf("%d entered, %d attached, %d broken, %d told", o.entered.Load(), o.attached.Load(), o.broken.Load(),
		o.reported.Load())
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

// useLock acquires the lock, uses it, and gives it up in a random way.
func (p *testClient) useLock(services []*lockcmd.Service, key string, random *rand.Rand) {
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
	if token == reply || !c.startHolding() {
		c.end(lockcmd.Expire)
		return
	}
	p.holderCheck.entered.Add(1)
	for random.IntN(3) > 0 {
		<-time.After(time.Duration(random.IntN(3000)) * time.Microsecond)
		next := p.connect(services[random.IntN(2)])
		if next.do("LOCK.ATTACH", key, "OWNER", p.name, "TOKEN", token) != ":"+token || !next.startHolding() {
			next.end(lockcmd.Expire)
			continue
		}
		p.holderCheck.attached.Add(1)
		if random.IntN(2) == 0 {
			c.end(lockcmd.Release) // the old connection ends
		} else {
			defer c.end(lockcmd.Expire)
		}
		c = next
	}
	c.stopHolding()
	switch random.IntN(3) {
	case 0:
		c.end(lockcmd.Release)
	case 1:
		c.do("LOCK.RELEASE", key, "TOKEN", token)
		c.end(lockcmd.Expire)
	default:
		other := p.connect(services[random.IntN(2)])
		other.do("LOCK.RELEASE", key, "OWNER", p.name, "TOKEN", token)
		other.do("LOCK.RELEASE", key, "TOKEN", token)
		other.end(lockcmd.Expire)
		c.end(lockcmd.Release)
	}
}
