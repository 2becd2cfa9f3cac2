package lockcmd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pingEvery    = 2 * time.Second // silence of the subscription connection for two of these ends it
	subLinger    = 5 * time.Second // how long a channel stays subscribed after its last waiter: another one may come
	subChunk     = 500             // channels in one SUBSCRIBE
	redialFirst  = 20 * time.Millisecond
	redialAtMost = time.Second
)

// subscriber is the one connection on which this Leash hears of unlocks and of what others did to its holds. It listens to a
// channel once, however many wait.
type subscriber struct {
	service *Service
	news    string        // our own channel, leash:<uuid>
	kick    chan struct{} // size 1: there is something to subscribe

	// mu guards the field below and the subs in it.
	mu   sync.Mutex
	subs map[string]*sub
}

// sub is a channel listened to.
type sub struct {
	locks []lockID // whose channel it is, one in each database that anybody has listened for
	users int
	since time.Time     // users is 0 since then
	asked bool          // SUBSCRIBE was sent on this connection
	ready chan struct{} // closed when Redis has confirmed it for the first time
	heard bool          // ready is closed
}

func newSubscriber(s *Service) *subscriber {
	return &subscriber{service: s, news: "leash:" + s.uuid, kick: make(chan struct{}, 1), subs: make(map[string]*sub)}
}

// listen subscribes to a lock's channel, once for all who ask. The result is closed when a message can no longer be missed.
func (l *subscriber) listen(channel string, lock lockID) (ready <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel]
	if c == nil {
		c = &sub{ready: make(chan struct{})}
		l.subs[channel] = c
		select {
		case l.kick <- struct{}{}:
		default:
		}
	}
	if !slices.Contains(c.locks, lock) {
		c.locks = append(c.locks, lock)
	}
	c.users++
	return c.ready
}

// leave is the end of one listen.
func (l *subscriber) leave(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.subs[channel]; c != nil {
		c.users--
		c.since = time.Now()
	}
}

// run keeps a connection until ctx ends.
func (l *subscriber) run(ctx context.Context) {
	pause := redialFirst
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := l.session(ctx, attempt)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > redialAtMost {
			pause = redialFirst
		}
		l.service.log.Debug("wake-up subscription lost", "err", err)
		if l.service.stopped(pause) {
			return
		}
		pause = min(2*pause, redialAtMost)
	}
}

// session is the life of one connection. A message reaches every node of a cluster, so any node will do; go-redis takes the one
// of the first channel's slot, so each attempt names another one first, lest a dead node be asked again and again.
func (l *subscriber) session(ctx context.Context, attempt int) error {
	ps := l.service.rdb.Subscribe(ctx)
	l.mu.Lock()
	for _, c := range l.subs {
		c.asked = false
	}
	l.mu.Unlock()
	var heard atomic.Int64
	ended := make(chan error, 1)
	if err := ps.Subscribe(ctx, fmt.Sprint(l.news, ":", attempt), l.news); err != nil {
		ps.Close()
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.receive(ctx, ps, &heard, ended) })
	defer wg.Wait()
	defer ps.Close()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	last := int64(-1)
	for {
		if err := l.subscribe(ctx, ps); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case <-l.kick:
			continue
		case <-tick.C:
		}
		if heard.Load() == last {
			return context.DeadlineExceeded
		}
		last = heard.Load()
		if err := ps.Ping(ctx); err != nil {
			return err
		}
		if err := l.sweep(ctx, ps); err != nil {
			return err
		}
	}
}

// subscribe sends what has not been sent on this connection.
func (l *subscriber) subscribe(ctx context.Context, ps *redis.PubSub) error {
	var names []string
	l.mu.Lock()
	for name, c := range l.subs {
		if !c.asked {
			c.asked = true
			names = append(names, name)
		}
	}
	l.mu.Unlock()
	for part := range slices.Chunk(names, subChunk) {
		if err := ps.Subscribe(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}

// sweep gives up channels that nobody has waited for lately.
func (l *subscriber) sweep(ctx context.Context, ps *redis.PubSub) error {
	var names []string
	l.mu.Lock()
	for name, c := range l.subs {
		if c.users == 0 && time.Since(c.since) > subLinger {
			names = append(names, name)
			delete(l.subs, name)
		}
	}
	l.mu.Unlock()
	for part := range slices.Chunk(names, subChunk) {
		if err := ps.Unsubscribe(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}

// receive reads messages until the connection ends.
func (l *subscriber) receive(ctx context.Context, ps *redis.PubSub, heard *atomic.Int64, ended chan<- error) {
	for {
		msg, err := ps.Receive(ctx)
		if err != nil {
			ended <- err
			return
		}
		heard.Add(1)
		switch m := msg.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				l.confirmed(m.Channel)
			}
		case *redis.Message:
			l.message(m)
		}
	}
}

// confirmed lets those look who waited for the subscription, and, when it is a new connection's, the head of those who wait.
func (l *subscriber) confirmed(channel string) {
	l.mu.Lock()
	c := l.subs[channel]
	if c != nil && !c.heard {
		c.heard = true
		close(c.ready)
		c = nil
	}
	locks := c.waitedFor()
	l.mu.Unlock()
	l.wake(locks)
}

func (l *subscriber) message(m *redis.Message) {
	if m.Channel == l.news {
		l.service.hear(m.Payload)
		return
	}
	l.mu.Lock()
	locks := l.subs[m.Channel].waitedFor()
	l.mu.Unlock()
	l.wake(locks)
}

// waitedFor is the locks of the channel; c may be nil.
func (c *sub) waitedFor() []lockID {
	if c == nil {
		return nil
	}
	return c.locks[:len(c.locks):len(c.locks)] // only ever appended to
}

func (l *subscriber) wake(locks []lockID) {
	for _, lock := range locks {
		l.service.queues.wake(lock)
	}
}
