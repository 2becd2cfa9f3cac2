package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/topology"
)

// Sentinels (https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/) name the
// master. They publish a change at once. Leash also polls them, for missed messages.
const (
	sentinelPoll = 2 * time.Second
	// how long to wait for the other sentinels after the first answer
	sentinelGrace    = 200 * time.Millisecond
	sentinelMinAgain = 200 * time.Millisecond // between questions, unless a sentinel reports
)

// sentinelEvents are the channels on which a sentinel reports a new master. The leader of a
// failover publishes as soon as the replica is promoted. The old master may accept writes for some
// seconds more.
var sentinelEvents = []string{"+promoted-slave", "+switch-master"}

var errNotSentinel = errors.New("--upstream-mode is sentinel, but the server there is not a sentinel")

// sentinels is what an Upstream knows of the sentinels that watch its master. Connect uses it
// first, and then Run's goroutine.
type sentinels struct {
	addrs   []string
	epoch   int64 // configuration epoch of the answer that was followed last
	watched map[string]context.CancelFunc
	urgent  chan struct{} // size 1: a sentinel has reported a change
}

// askSentinel asks one sentinel for everything that it knows of the master.
func (u *Upstream) askSentinel(ctx context.Context, addr string) (v topology.Sentinel, err error) {
	ctx, cancel := context.WithTimeout(ctx, dial.AskTimeout)
	defer cancel()
	c := u.Dialer.SentinelClient(addr)
	defer c.Close()
	name := u.cfg.SentinelMaster
	pipe := c.Pipeline()
	at := redis.NewStringSliceCmd(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	state := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", name)
	// Not NewSliceCmd: it takes an integer for the length of an array, and allocates that much.
	others := redis.NewCmd(ctx, "SENTINEL", "SENTINELS", name)
	replicas := redis.NewCmd(ctx, "SENTINEL", "SLAVES", name) // every version knows SLAVES
	for _, cmd := range []redis.Cmder{at, state, others, replicas} {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	switch err := at.Err(); {
	case errors.Is(err, redis.Nil):
		return v, fmt.Errorf("sentinel %s: %w: it watches no master named %q, check --sentinel-master", addr,
			errNoSuchMaster, name)
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		return v, fmt.Errorf("%s: %w", addr, errNotSentinel)
	case err != nil:
		return v, dial.SentinelError(addr, err)
	}
	v, ok := topology.ParseSentinel(at.Val(), state.Val(), others.Val(), replicas.Val())
	if !ok {
		return v, fmt.Errorf("sentinel %s: unexpected answer %q", addr, at.Val())
	}
	return v, nil
}

// askSentinels asks all sentinels at once and returns the newest view. A silent one causes no delay
// if another answers.
func (u *Upstream) askSentinels(ctx context.Context) (newest topology.Sentinel, err error) {
	type answer struct {
		view topology.Sentinel
		err  error
	}
	answers := make(chan answer, len(u.sentinels.addrs))
	asked := 0
	for _, addr := range u.sentinels.addrs {
		if u.Nodes.Go("question to a sentinel", func(context.Context) {
			var a answer
			a.err = guard.Call(u.log, "question to a sentinel", func() (err error) {
				a.view, err = u.askSentinel(ctx, addr)
				return err
			})
			answers <- a
		}) {
			asked++
		}
	}
	known := slices.Clone(u.cfg.Addrs)
	var grace <-chan time.Time
	newest.Epoch = -1
	for ; asked > 0; asked-- {
		select {
		case a := <-answers:
			if a.err != nil {
				err = clearerError(err, a.err)
				continue
			}
			if grace == nil {
				grace = time.After(sentinelGrace)
			}
			known = append(known, a.view.Others...)
			if a.view.Epoch > newest.Epoch {
				newest = a.view
			}
			continue
		case <-grace:
		}
		known = append(known, u.sentinels.addrs...) // the silent ones
		break
	}
	if grace == nil {
		if err == nil {
			err = links.ErrClosed
		}
		return newest, err
	}
	slices.Sort(known)
	u.sentinels.addrs = slices.Compact(known)
	return newest, nil
}

// followSentinels finds the master. It follows the sentinels' answer if the named server confirms
// that it is a master. A sentinel that does not know of a failover yet gives an older answer than
// before. Leash follows such an answer only if the newer master is no longer a master.
func (u *Upstream) followSentinels(ctx context.Context) error {
	view, err := u.askSentinels(ctx)
	if err != nil {
		return err
	}
	u.watchSentinels()
	current := ""
	if t := u.Topology(); t != nil {
		current = t.Masters()[0].Addr
	}
	if view.Master == current {
		u.sentinels.epoch = max(u.sentinels.epoch, view.Epoch)
		u.adopt(topology.Single(current, view.Replicas))
		return nil
	}
	if view.Epoch < u.sentinels.epoch && u.Dialer.IsMaster(ctx, current) == nil {
		return nil
	}
	if err := u.Dialer.IsMaster(ctx, view.Master); err != nil {
		u.Refresh()
		return err
	}
	u.log.Info("the sentinels name a master", "node", view.Master, "epoch", view.Epoch)
	u.sentinels.epoch = view.Epoch
	view.Replicas = slices.DeleteFunc(view.Replicas, func(addr string) bool { return addr == current })
	// the old master is closed before it comes back as a replica
	u.adopt(topology.Single(view.Master, view.Replicas))
	if u.onSwitch != nil {
		u.onSwitch()
	}
	return nil
}

// watchSentinels subscribes to each known sentinel and ends the subscriptions to all others. Before
// Run it does nothing.
func (u *Upstream) watchSentinels() {
	s := &u.sentinels
	for addr, stop := range s.watched {
		if !slices.Contains(s.addrs, addr) {
			stop()
			delete(s.watched, addr)
		}
	}
	for _, addr := range s.addrs {
		if s.watched[addr] != nil {
			continue
		}
		ctx, stop := context.WithCancel(u.Nodes.Context())
		if u.Nodes.Go("sentinel listener", func(context.Context) { u.listenSentinel(ctx, addr) }) {
			s.watched[addr] = stop
		} else {
			stop()
		}
	}
}

// listenSentinel handles the messages of a sentinel until ctx is done.
func (u *Upstream) listenSentinel(ctx context.Context, addr string) {
	c := u.Dialer.SentinelClient(addr)
	defer c.Close()
	for ctx.Err() == nil {
		u.readSentinel(ctx, c, addr)
		links.Pause(ctx, sentinelMinAgain)
	}
}

// readSentinel reads the messages of one connection. It returns when the connection ends or does
// not answer a PING. It decodes in this goroutine. In a goroutine of go-redis, an invalid message
// would end the process.
func (u *Upstream) readSentinel(ctx context.Context, c *redis.Client, addr string) {
	ps := c.Subscribe(ctx, sentinelEvents...)
	defer ps.Close()
	// ReceiveTimeout does not end when ctx is done
	defer context.AfterFunc(ctx, guard.Func(u.log, "end of a sentinel", func() { ps.Close() }))()
	pinged := false
	for ctx.Err() == nil {
		message, err := receive(ctx, ps)
		var slow net.Error
		switch event, _ := message.(*redis.Message); {
		case err == nil && event != nil:
			u.log.Debug("sentinel", "addr", addr, "event", event.Channel, "says", event.Payload)
			select {
			case u.sentinels.urgent <- struct{}{}:
			default:
			}
			pinged = false
		case err == nil:
			pinged = false
		case errors.As(err, &slow) && slow.Timeout() && !pinged:
			if pinged = true; ps.Ping(ctx) != nil {
				return
			}
		default:
			return
		}
	}
}

// receive returns the next message of a sentinel. go-redis panics when a message is invalid.
// receive returns an error instead.
func receive(ctx context.Context, ps *redis.PubSub) (message any, err error) {
	defer func() {
		if recover() != nil {
			message, err = nil, resp.ErrFrame
		}
	}()
	return ps.ReceiveTimeout(ctx, sentinelPoll)
}

// followsSentinels reports whether sentinels name the master.
func (u *Upstream) followsSentinels() bool { return u.cfg.Mode == "sentinel" }
