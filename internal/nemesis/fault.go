package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

// fault is one way to break something, and to mend it again before it returns.
type fault struct {
	name   string
	forget bool // Redis may forget locks by it
	strike func(n *nemesis) error
}

// nemesis breaks things, one at a time.
type nemesis struct {
	bed     *bed
	rnd     *rand.Rand
	history *history
	log     *slog.Logger
	forget  bool
	struck  map[string]int
}

var faults = []fault{
	{"cut clients", false, (*nemesis).cutClients},
	{"reset clients", false, (*nemesis).resetClients},
	{"freeze clients", false, (*nemesis).freezeClients},
	{"slow clients", false, (*nemesis).slowClients},
	{"freeze a node's network", false, (*nemesis).freezeNode},
	{"cut a node's connections", false, (*nemesis).cutNode},
	{"slow node", false, (*nemesis).slowNode},
	{"lose replies of scripts", false, (*nemesis).loseReplies},
	{"lose scripts", false, (*nemesis).loseRequests},
	{"pause redis", false, (*nemesis).pauseRedis},
	{"script flush", false, (*nemesis).flushScripts},
	{"move slots", false, (*nemesis).moveSlot},
	{"failover by command", false, (*nemesis).failover},
	{"pause leash", false, (*nemesis).pauseLeash},
	{"kill leash", false, (*nemesis).killLeash},
	{"stop leash", false, (*nemesis).stopLeash},
	{"flushall", true, (*nemesis).flushAll},
	{"kill redis", true, (*nemesis).killRedis},
}

// run breaks things until ctx ends. Everything is mended then.
func (n *nemesis) run(ctx context.Context) error {
	for ctx.Err() == nil {
		f := faults[n.rnd.IntN(len(faults))]
		if f.forget && !n.forget {
			continue
		}
		n.log.Debug("fault", "name", f.name)
		n.struck[f.name]++
		from := time.Now()
		if err := f.strike(n); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if f.forget {
			n.history.forget("", from)
		}
		select {
		case <-ctx.Done():
		case <-time.After(n.between(200*time.Millisecond, 1500*time.Millisecond)):
		}
	}
	return nil
}

func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.rnd.Int64N(int64(most-least)))
}

func (n *nemesis) rest(least, most time.Duration) { time.Sleep(n.between(least, most)) }

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

func (n *nemesis) front() *faultproxy.Proxy { return pick(n.rnd, n.bed.fronts) }

func (n *nemesis) master() *redistest.Node { return pick(n.rnd, n.bed.cluster.Masters()) }

func (n *nemesis) cutClients() error { n.front().Cut(faultproxy.FIN); return nil }

func (n *nemesis) resetClients() error { n.front().Cut(faultproxy.RST); return nil }

func (n *nemesis) freezeClients() error {
	p := n.front()
	p.Freeze()
	n.rest(200*time.Millisecond, 5*time.Second)
	p.Thaw()
	return nil
}

func (n *nemesis) slowClients() error {
	p := n.front()
	p.Delay(n.between(5*time.Millisecond, 100*time.Millisecond))
	n.rest(500*time.Millisecond, 3*time.Second)
	p.Delay(0)
	return nil
}

func (n *nemesis) freezeNode() error {
	p := n.master().Proxy
	p.Freeze()
	n.rest(200*time.Millisecond, 5*time.Second)
	p.Thaw()
	return nil
}

func (n *nemesis) cutNode() error { n.master().Proxy.Cut(faultproxy.RST); return nil }

func (n *nemesis) slowNode() error {
	p := n.master().Proxy
	p.Delay(n.between(5*time.Millisecond, 200*time.Millisecond))
	n.rest(500*time.Millisecond, 3*time.Second)
	p.Delay(0)
	return nil
}

func (n *nemesis) loseReplies() error {
	f := n.master().Proxy.DropAfter(faultproxy.Named("EVALSHA", "EVAL"), faultproxy.Times(1+n.rnd.IntN(5)))
	n.rest(200*time.Millisecond, time.Second)
	f.Disarm()
	return nil
}

func (n *nemesis) loseRequests() error {
	f := n.master().Proxy.DropBefore(faultproxy.Named("EVALSHA", "EVAL"), faultproxy.Times(1+n.rnd.IntN(5)), faultproxy.EndBy(faultproxy.RST))
	n.rest(200*time.Millisecond, time.Second)
	f.Disarm()
	return nil
}

func (n *nemesis) pauseRedis() error {
	node := n.master()
	if err := node.Pause(); err != nil {
		return err
	}
	n.rest(200*time.Millisecond, 5*time.Second)
	return node.Resume()
}

func (n *nemesis) flushScripts() error {
	for _, node := range n.bed.cluster.Masters() {
		if err := node.Client().ScriptFlush(context.Background()).Err(); err != nil {
			return err
		}
	}
	return nil
}

// moveSlot moves the slot of one of the locks to another master, with a moment in which it is at both.
func (n *nemesis) moveSlot() error {
	slot := redistest.Slot(pick(n.rnd, n.bed.keys))
	from, to := n.bed.cluster.MasterOf(slot), n.master()
	if from == to || from == nil {
		return nil
	}
	m, err := n.bed.cluster.BeginMove(slot, to)
	if err != nil {
		return err
	}
	n.rest(0, 500*time.Millisecond)
	for {
		if moved, err := m.MoveKeys(100); err != nil || moved == 0 {
			return errors.Join(err, m.Finish())
		}
	}
}

// failover makes a replica the master as an operator does: the master waits until the replica has all it has.
func (n *nemesis) failover() error {
	replica := n.bed.cluster.ReplicaOf(redistest.Slot(pick(n.rnd, n.bed.keys)))
	if replica == nil {
		return nil
	}
	if err := n.bed.cluster.Failover(replica); err != nil { // Redis may refuse: the replica is behind
		n.log.Debug("no failover", "err", err)
	}
	return nil
}

func (n *nemesis) pauseLeash() error {
	l := pick(n.rnd, n.bed.leashes)
	if err := l.Pause(); err != nil {
		return err
	}
	n.rest(200*time.Millisecond, 5*time.Second)
	return l.Resume()
}

func (n *nemesis) killLeash() error {
	l := pick(n.rnd, n.bed.leashes)
	l.Kill()
	n.rest(0, 2*time.Second)
	return l.Restart(context.Background())
}

func (n *nemesis) stopLeash() error {
	l := pick(n.rnd, n.bed.leashes)
	if err := l.Stop(); err != nil {
		return err
	}
	n.rest(0, 500*time.Millisecond)
	return l.Restart(context.Background())
}

func (n *nemesis) flushAll() error { return n.master().Client().FlushAll(context.Background()).Err() }

// killRedis kills a master and lets its replica take over what it has.
func (n *nemesis) killRedis() error {
	slot := redistest.Slot(pick(n.rnd, n.bed.keys))
	master, replica := n.bed.cluster.MasterOf(slot), n.bed.cluster.ReplicaOf(slot)
	if master == nil || replica == nil {
		return nil
	}
	if err := master.Kill(); err != nil {
		return err
	}
	if err := n.bed.cluster.Failover(replica, "TAKEOVER"); err != nil {
		return err
	}
	return master.Restart()
}
