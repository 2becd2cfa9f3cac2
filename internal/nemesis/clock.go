package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// clockFaults are the faults of the clocks of Redis's hosts. At the end of each fault, a step in
// the other direction sets the clock right, as a time service does it.
var clockFaults = []fault{
	{"clock: a moment off", true, false, func(l *injector) error {
		return l.withClockOff(l.anyNode(), l.between(time.Millisecond, history.SmallStep), (*injector).shortPause)
	}},
	{"clock: stepped", true, false, func(l *injector) error {
		return l.withClockOff(l.anyNode(), l.between(100*time.Millisecond, maxStep), (*injector).longPause)
	}},
	{"clock: an hour back", true, false, (*injector).hourBack},
	{"clock: failover to another one", true, false, (*injector).failoverToOther},
}

const (
	// maxStep is the longest step, except for the step of an hour. A lock may stay for so long
	// after all faults have ended.
	maxStep = 2 * history.TTL
)

// anyNode returns a master most of the time, and sometimes any node.
func (l *injector) anyNode() *redistest.Node {
	if l.rnd.IntN(4) > 0 {
		return l.master()
	}
	n := pick(l.rnd, l.bed.cluster.Nodes)
	l.timeline.SetPlace(l.period, n.Announced())
	return n
}

// eitherWay returns d or -d.
func eitherWay(rnd *rand.Rand, d time.Duration) time.Duration {
	return []time.Duration{d, -d}[rnd.IntN(2)]
}

// withClockOff sets a node's clock forward or back by d, runs while, and sets the clock right.
func (l *injector) withClockOff(n *redistest.Node, d time.Duration, while func(*injector)) error {
	d = eitherWay(l.rnd, d)
	if err := l.step(n, d); err != nil {
		return err
	}
	while(l)
	return l.step(n, -d)
}

// hourBack sets a clock back by an hour, and then forward. In the other order, what Redis stores
// between the two steps would last for an hour. After a step forward by an hour, Redis takes the
// other nodes of the cluster for dead until it gets a message from them.
func (l *injector) hourBack() error {
	n := l.anyNode()
	if err := l.step(n, -time.Hour); err != nil {
		return err
	}
	l.longPause()
	return errors.Join(l.step(n, time.Hour), l.bed.cluster.AwaitStable(20*time.Second))
}

// failoverToOther makes a replica the master while its clock is ahead or behind. Then it sets the
// clock right.
func (l *injector) failoverToOther() error {
	slot := l.slot()
	master, replica := l.bed.cluster.MasterOf(slot), l.bed.cluster.ReplicaOf(slot)
	if master == nil || replica == nil || replica.Clock == nil {
		return errNoNode
	}
	d := eitherWay(l.rnd, l.between(100*time.Millisecond, maxStep))
	if err := l.step(replica, d); err != nil {
		return err
	}
	l.timeline.NewMaster(l.period)
	passed := l.history.BeginStep(l.served(master), d)
	err := l.bed.cluster.Failover(replica) // Redis may refuse
	passed(err == nil || l.bed.cluster.MasterOf(slot) == replica)
	l.shortPause()
	return errors.Join(err, l.step(replica, -d))
}

// step sets a node's clock forward by d, or back if d is negative.
func (l *injector) step(n *redistest.Node, d time.Duration) error {
	if n.Clock == nil {
		return errNoNode
	}
	l.timeline.SetPlace(l.period, fmt.Sprintf("by %v", d))
	done := l.history.BeginStep(l.served(n), d)
	err := n.Clock.Step(d)
	done(err == nil)
	return err
}

// served returns the locks that a node serves.
func (l *injector) served(n *redistest.Node) (keys []string) {
	for _, key := range l.bed.realKeys() {
		if l.bed.cluster.MasterOf(redistest.Slot(key)) == n {
			keys = append(keys, key)
		}
	}
	if slices.ContainsFunc(history.QuorumKeys, func(key string) bool { return slices.Contains(keys, key) }) {
		keys = append(keys, history.QuorumKey)
	}
	return keys
}
