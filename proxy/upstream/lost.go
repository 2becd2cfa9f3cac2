package upstream

import (
	"errors"
	"io"
	"maps"
	"sync"
	"time"
)

const (
	lostRefresh = 5 * time.Second // between looks at the topology while a node is lost
	forgetLost  = 24 * time.Hour  // a node that is lost for longer is not expected back
)

// lostNodes are the addresses that do not answer, and since when. The log says once that one is
// lost, and once that it is back, also if it has left the topology in between. Safe for concurrent
// use.
type lostNodes struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// add is false if addr was lost before.
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

// remove is false if addr was not lost; away is for how long it was.
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

// logBack logs once that an address that was lost answers again.
func (u *Upstream) logBack(addr string) {
	if away, was := u.lost.remove(addr); was {
		u.log.Info("redis node is back", "node", addr, "away", away.Round(time.Millisecond))
	}
}

// noteWell takes note of addresses that the cluster, or a sentinel, says are well. Of a node that is
// watched the watch tells.
func (u *Upstream) noteWell(addrs []string) {
	for _, addr := range addrs {
		u.mu.Lock()
		watched := u.nodes[addr] != nil
		u.mu.Unlock()
		if !watched {
			u.logBack(addr)
		}
	}
}
