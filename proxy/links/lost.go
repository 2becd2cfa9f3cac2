package links

import (
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"leash/proxy/dial"
)

// forgetLost is how long a lost address is remembered.
const forgetLost = 24 * time.Hour

// lostNodes are the addresses that do not answer, each with the time when it was lost. The log
// reports once that an address is lost and once that it is back, even if it has left the topology.
// Safe for concurrent use.
type lostNodes struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// add records that addr is lost. It returns false if addr was lost before.
func (l *lostNodes) add(addr string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.since, func(_ string, since time.Time) bool { return time.Since(since) > forgetLost })
	if _, known := l.since[addr]; known {
		return false
	}
	if l.since == nil {
		l.since = make(map[string]time.Time)
	}
	l.since[addr] = time.Now()
	return true
}

// remove records that addr answers. It returns false if addr was not lost. away is how long it was
// lost.
func (l *lostNodes) remove(addr string) (away time.Duration, was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, was := l.since[addr]
	delete(l.since, addr)
	return time.Since(since), was
}

// logLost logs once that the node does not answer.
func (n *Node) logLost(cause error) {
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the node closed the connection")
	}
	if n.nodes.lost.add(n.Addr) {
		n.nodes.log.Error("redis node lost", "node", n.Addr, "err", cause)
	}
}

// logBack logs once that a lost address answers again.
func (ns *Nodes) logBack(addr string) {
	if away, was := ns.lost.remove(addr); was {
		ns.log.Info("redis node is back", "node", addr, "away", away.Round(time.Millisecond))
	}
}

// NoteHealthy records addresses that work according to the cluster or a sentinel. It skips nodes
// with a watch, because the watch records them.
func (ns *Nodes) NoteHealthy(addrs []string) {
	for _, addr := range addrs {
		if ns.Known(addr) == nil {
			ns.logBack(addr)
		}
	}
}

// SomeLost reports whether an address is lost.
func (ns *Nodes) SomeLost() bool {
	ns.lost.mu.Lock()
	defer ns.lost.mu.Unlock()
	return len(ns.lost.since) > 0
}

// refusedAnew records why a connection was refused. It returns false if the last one was refused
// for the same reason.
func (n *Node) refusedAnew(reason string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := dial.SameReason(n.refusal, reason)
	n.refusal = reason
	return !same
}

// accepted records that there is a new connection.
func (n *Node) accepted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = ""
}
