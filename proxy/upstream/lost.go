package upstream

import (
	"errors"
	"io"
	"maps"
	"sync"
	"time"
)

const (
	lostRefresh = 5 * time.Second // time between topology refreshes while a node is lost
	forgetLost  = 24 * time.Hour  // an address that is lost for longer is forgotten
)

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

func (l *lostNodes) some() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.since) > 0
}

// logLost logs once that the node does not answer.
func (n *Node) logLost(cause error) {
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the node closed the connection")
	}
	if n.up.lost.add(n.Addr) {
		n.up.log.Error("redis node lost", "node", n.Addr, "err", cause)
	}
}

// logBack logs once that a lost address answers again.
func (u *Upstream) logBack(addr string) {
	if away, was := u.lost.remove(addr); was {
		u.log.Info("redis node is back", "node", addr, "away", away.Round(time.Millisecond))
	}
}

// noteHealthy records addresses that work according to the cluster or a sentinel. It skips nodes
// with a watch, because the watch records them.
func (u *Upstream) noteHealthy(addrs []string) {
	for _, addr := range addrs {
		u.mu.Lock()
		watched := u.nodes[addr] != nil
		u.mu.Unlock()
		if !watched {
			u.logBack(addr)
		}
	}
}
