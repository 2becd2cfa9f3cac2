// Package embedded is the Redis that Leash uses when no other one is named. It is miniredis, in
// memory, within this process.
//
// It is for trying Leash out, and for tests that need no real Redis. It differs from Redis:
//
//   - It is no cluster, though it answers CLUSTER SLOTS like one.
//   - It has no sharded pub/sub, no users, no CLIENT and no WAIT that counts.
//   - One mutex guards all commands.
//   - It forgets everything when the process ends.
//
// miniredis does not expire keys by itself. [Server] does that every [Tick], so keys expire as in
// Redis, also if no client asks for them. A key may end up to one Tick early.
package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	panics "leash/internal/guard"
)

// Tick is the time between two expiry runs. It is longer if there are so many keys that a run takes
// long.
const Tick = 10 * time.Millisecond

// closeTimeout bounds Close, because nothing can stop a script.
const closeTimeout = time.Second

// Server is a running embedded Redis. Its methods are safe for concurrent use.
type Server struct {
	// Immutable after Start.
	redis *miniredis.Miniredis
	addr  string
	stop  context.CancelFunc
	done  chan struct{} // closed by run when everything has ended
}

// Start serves on a free port of the loopback interface until ctx ends or Close is called.
func Start(ctx context.Context) (*Server, error) {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	install(redis)
	ctx, stop := context.WithCancel(ctx)
	s := &Server{redis: redis, addr: redis.Addr(), stop: stop, done: make(chan struct{})}
	go panics.Func(nil, "embedded redis", func() { s.run(ctx) })()
	return s, nil
}

// Addr is where the server listens, as host:port. It stays the same after the end.
func (s *Server) Addr() string {
	return s.addr
}

// Close closes the connections and waits until the server has ended, for a second at most. A script
// that never ends would block it. It may be called again, or after ctx has ended.
func (s *Server) Close() {
	s.stop()
	select {
	case <-s.done:
	case <-time.After(closeTimeout):
	}
}

// run ages the keys until ctx ends, then ends the server.
func (s *Server) run(ctx context.Context) {
	defer close(s.done)
	defer s.redis.Close()

	timer := time.NewTimer(Tick)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		s.redis.FastForward(now.Sub(last))
		last = now
		timer.Reset(pause(time.Since(now)))
	}
}

// pause is how long to wait after an expiry run that took cost. miniredis sorts every key for it,
// under its only lock. The run may take a tenth of the time. With 100,000 keys that is about 25 ms
// of every 250.
func pause(cost time.Duration) time.Duration {
	return max(Tick, 9*cost)
}
