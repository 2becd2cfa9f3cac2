package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
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
	name := u.cfg.SentinelMaster
	err = u.Dialer.AskSentinel(ctx, addr, func(c *dial.Conn) error {
		at, err := c.List("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
		switch {
		case errors.Is(err, dial.ErrNull):
			return fmt.Errorf("%w: it watches no master named %q, check --sentinel-master", errNoSuchMaster, name)
		case dial.IsReply(err) && strings.Contains(err.Error(), "unknown command"):
			return errNotSentinel
		case err != nil:
			return err
		}
		var answers [3]any
		for i, what := range []string{"MASTER", "SENTINELS", "SLAVES"} { // every version knows SLAVES
			answers[i], err = c.Do("SENTINEL", what, name)
			if err != nil && !dial.IsReply(err) {
				return err
			}
		}
		var ok bool
		if v, ok = topology.ParseSentinel(at, answers[0], answers[1], answers[2]); !ok {
			return fmt.Errorf("unexpected answer %q", at)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errNotSentinel) {
		err = dial.SentinelError(err)
	}
	return v, err
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
	for ctx.Err() == nil {
		if err := u.readSentinel(ctx, addr); err != nil && ctx.Err() == nil {
			u.log.Debug("no messages of a sentinel", "addr", addr, "err", err)
		}
		links.Pause(ctx, sentinelMinAgain)
	}
}

// readSentinel reads the messages of one connection. It returns when the connection ends or does
// not answer a PING.
func (u *Upstream) readSentinel(ctx context.Context, addr string) error {
	connecting, cancel := context.WithTimeout(ctx, dial.AskTimeout)
	c, err := u.Dialer.DialSentinel(connecting, addr)
	cancel()
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, guard.Func(u.log, "end of a sentinel", func() { c.Close() }))()
	if err := c.Send(append([]string{"SUBSCRIBE"}, sentinelEvents...)...); err != nil {
		return err
	}
	for pinged := false; ; {
		_ = c.SetReadDeadline(time.Now().Add(sentinelPoll))
		message, err := c.Receive()
		switch {
		case err == nil:
			u.noteSentinel(addr, message)
			pinged = false
		case errors.Is(err, os.ErrDeadlineExceeded) && !pinged:
			if err := c.Send("PING"); err != nil {
				return err
			}
			pinged = true
		default:
			return err
		}
	}
}

// noteSentinel requests a look at the sentinels if one has sent a message on a channel.
func (u *Upstream) noteSentinel(addr string, message any) {
	fields, _ := message.([]any)
	if len(fields) != 3 || fields[0] != "message" {
		return
	}
	u.log.Debug("sentinel", "addr", addr, "event", fields[1], "says", fields[2])
	links.Signal(u.sentinels.urgent)
}

// followsSentinels reports whether sentinels name the master.
func (u *Upstream) followsSentinels() bool { return u.cfg.Mode == "sentinel" }
