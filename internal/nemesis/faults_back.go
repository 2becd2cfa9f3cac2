package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// networkFaults are the faults of the network between Leash and Redis.
var networkFaults = []fault{
	{"network: cut", true, false, func(l *injector) error { return l.freeze(l.master().Proxy, faultproxy.ToTarget, faultproxy.ToClient) }},
	{"network: cut to redis", true, false, func(l *injector) error { return l.freeze(l.master().Proxy, faultproxy.ToTarget) }},
	{"network: cut from redis", true, false, func(l *injector) error { return l.freeze(l.master().Proxy, faultproxy.ToClient) }},
	{"network: connections closed", true, false, func(l *injector) error { l.master().Proxy.Cut(faultproxy.FIN); return nil }},
	{"network: connections reset", true, false, func(l *injector) error { l.master().Proxy.Cut(faultproxy.RST); return nil }},
	{"network: half-open, redis gone", true, false, func(l *injector) error { return l.sever(l.master().Proxy, faultproxy.TargetSide) }},
	{"network: half-open, leash gone", true, false, func(l *injector) error { return l.sever(l.master().Proxy, faultproxy.ClientSide) }},
	{"network: refused", true, false, (*injector).refuse},
	{"network: slow", true, false, func(l *injector) error { return l.slow(l.master().Proxy, 200*time.Millisecond) }},
	{"network: narrow", true, false, func(l *injector) error { return l.narrow(l.master().Proxy, 5_000) }},
	{"network: scripts lost", true, false, (*injector).loseScripts},
	{"network: replies of scripts lost", true, false, (*injector).loseReplies},
	{"network: scripts late", true, false, (*injector).delayScripts},
	{"network: replies of scripts late", true, false, (*injector).delayReplies},
	{"network: corrupt replies", true, false, func(l *injector) error { return l.corrupt(l.master().Proxy, 0.01) }},
	{"network: many corrupt replies", true, false, func(l *injector) error { return l.corrupt(l.master().Proxy, 0.25) }},
}

// redisFaults are the faults of Redis.
var redisFaults = []fault{
	{"redis: stopped", true, false, (*injector).pauseRedis},
	{"redis: client pause", true, false, func(l *injector) error { return l.pauseClients("ALL") }},
	{"redis: writes paused", true, false, func(l *injector) error { return l.pauseClients("WRITE") }},
	{"redis: debug sleep", true, false, (*injector).sleepRedis},
	{"redis: script flush", true, false, (*injector).flushScripts},
	{"redis: slot moved", true, false, (*injector).moveSlot},
	{"redis: failover by command", true, false, (*injector).failover},
	{"redis: replica killed", true, false, (*injector).killReplica},
	{"redis: flushall", true, true, (*injector).flushAll},
	{"redis: master killed", true, true, (*injector).killMaster},
}

var errNoNode = errors.New("no such node")

var scripts = faultproxy.Named("EVALSHA", "EVAL")

func (l *injector) someTimes() faultproxy.Option { return faultproxy.Times(1 + l.rnd.IntN(5)) }

func (l *injector) refuse() error {
	p := l.master().Proxy
	if err := p.Refuse(true); err != nil {
		return err
	}
	p.Cut(faultproxy.RST)
	l.shortPause()
	return p.Refuse(false)
}

// corrupt makes a share of Redis's replies unreadable. That includes replies on links, on pinned
// connections and on subscriptions, replies to scripts, and the topology.
func (l *injector) corrupt(p *faultproxy.Proxy, share float64) error {
	p.Corrupt(share, false)
	l.longPause()
	p.Corrupt(0, false)
	return nil
}

func (l *injector) loseScripts() error {
	f := l.master().Proxy.DropBefore(scripts, l.someTimes(), faultproxy.EndBy(faultproxy.RST))
	time.Sleep(l.between(200*time.Millisecond, time.Second))
	f.Disarm()
	return nil
}

func (l *injector) loseReplies() error {
	f := l.master().Proxy.DropAfter(scripts, l.someTimes())
	time.Sleep(l.between(200*time.Millisecond, time.Second))
	f.Disarm()
	return nil
}

// delayScripts delays scripts, so that they reach Redis when Leash does not wait for them any more.
func (l *injector) delayScripts() error {
	f := l.master().Proxy.HoldBefore(scripts, l.someTimes())
	l.longPause()
	f.Release()
	return nil
}

func (l *injector) delayReplies() error {
	f := l.master().Proxy.HoldAfter(scripts, l.someTimes())
	l.longPause()
	f.Release()
	return nil
}

func (l *injector) pauseRedis() error {
	node := l.master()
	if err := node.Pause(); err != nil {
		return err
	}
	l.longPause()
	return node.Resume()
}

// pauseClients makes Redis pause all commands, or only those that write. A planned failover pauses
// those that write.
func (l *injector) pauseClients(mode string) error {
	d := l.between(200*time.Millisecond, longest)
	args := []any{"CLIENT", "PAUSE", d.Milliseconds(), mode}
	err := l.master().Client().Do(context.Background(), args...).Err()
	time.Sleep(d)
	return err
}

// sleepRedis makes Redis sleep for a while, as a slow script does.
func (l *injector) sleepRedis() error {
	d := l.between(200*time.Millisecond, 4*time.Second)
	c, err := l.master().Dial()
	if err != nil {
		return err
	}
	_, err = c.Do("DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 2, 64))
	return errors.Join(err, c.Close())
}

func (l *injector) flushScripts() error {
	for _, node := range l.bed.cluster.Masters() {
		if err := node.Client().ScriptFlush(context.Background()).Err(); err != nil {
			return err
		}
	}
	return nil
}

// moveSlot moves the slot of one of the locks to another master: at once, if Redis can, or key by
// key. Then the slot is migrating for a while, and its keys may be on both masters.
func (l *injector) moveSlot() error {
	slot := l.slot()
	from := l.bed.cluster.MasterOf(slot)
	others := slices.DeleteFunc(l.bed.cluster.Masters(), func(n *redistest.Node) bool { return n == from })
	if from == nil || len(others) == 0 {
		return errNoNode
	}
	to := pick(l.rnd, others)
	l.timeline.SetPlace(l.period, to.Announced())
	if l.rnd.IntN(2) == 0 && l.bed.cluster.MoveAtOnce(slot, to) == nil {
		return nil
	}
	m, err := l.bed.cluster.BeginMove(slot, to)
	if err != nil {
		return err
	}
	time.Sleep(l.between(0, 500*time.Millisecond))
	for moved := 1; moved > 0 && err == nil; {
		moved, err = m.MoveKeys(100)
	}
	if err == nil {
		err = m.Finish()
	}
	if err != nil {
		return errors.Join(err, m.Abort())
	}
	return nil
}

// failover makes a replica the master, as an operator does it. Before that, the master waits until
// the replica has all its data.
func (l *injector) failover() error {
	replica := l.bed.cluster.ReplicaOf(l.slot())
	if replica == nil {
		return errNoNode
	}
	l.timeline.NewMaster(l.period)
	return l.bed.cluster.Failover(replica) // Redis may refuse: the replica is behind
}

// killReplica kills a replica and starts it again. It is empty then, and copies its master.
func (l *injector) killReplica() error {
	replica := l.bed.cluster.ReplicaOf(l.slot())
	if replica == nil {
		return errNoNode
	}
	if err := replica.Kill(); err != nil {
		return err
	}
	l.shortPause()
	return replica.Restart()
}

func (l *injector) flushAll() error {
	defer l.history.Forget("", false)(false, 0)
	master := l.master()
	err := master.Client().FlushAll(context.Background()).Err()
	for _, key := range l.bed.realKeys() {
		if history.KindOf(key) == "sem" {
			// The reply is MOVED if another master has the slot.
			_ = master.Client().SetNX(context.Background(), key, history.Permits, 0).Err()
		}
	}
	return err
}

// killMaster kills a master and makes its replica the master. The replica may lack the last writes.
func (l *injector) killMaster() error {
	if err := l.bed.cluster.AwaitStable(10 * time.Second); err != nil {
		return err
	}
	slot := l.slot()
	master, replica := l.bed.cluster.MasterOf(slot), l.bed.cluster.ReplicaOf(slot)
	if master == nil || replica == nil {
		return errNoNode
	}
	l.timeline.NewMaster(l.period)
	defer l.history.Forget("", true)(l.grace, 0) // with a grace period, Leash restores the holds
	if err := master.Kill(); err != nil {
		return err
	}
	return errors.Join(l.bed.cluster.Failover(replica, "TAKEOVER"), master.Restart())
}
