package proxy

import (
	"cmp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/locks"
	"leash/proxy/resp"
)

const (
	// msgMemory begins as Redis's error beyond maxmemory.
	msgMemory = "OOM command not allowed when used memory > 80% of --max-memory on this Leash"

	memoryInterval  = 100 * time.Millisecond // between looks at the memory
	collectInterval = time.Second            // between collections while too much is in use
	memoryWarnings  = time.Minute            // between warnings that new work is refused

	// leastCut is how much a client must hold to be closed, in bytes. To close one with less frees
	// nothing.
	leastCut = 64 << 10

	// Reasons for the end of a session.
	memoryLimit = "memory limit"
	outputLimit = "user output limit"
)

// memory keeps the process within Config.MaxMemory. Above four fifths of it, new work is refused.
// Clients that have read nothing for stallTimeout are closed then. Above all of it, the clients are
// closed for which Leash keeps the most.
type memory struct {
	most, soft int64 // bytes; most is 0 without a limit

	tight   atomic.Bool  // new work is refused
	refused atomic.Int64 // commands and connections

	// Used by checkMemory only.
	lookAgain   time.Time // no collection before, unless clients can be closed
	futile      bool      // the last look found nobody to close
	warnLimiter limits.Interval
}

// memoryUsed returns the bytes of memory that the process uses: all that Go has, less what no
// object is in. It includes garbage.
func memoryUsed() int64 {
	samples := [...]metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples[:])
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}

// collectAbove collects garbage if more than limit bytes are in use, and returns how many are. The
// second collection frees what pools have kept at the first.
func collectAbove(limit int64) (used int64) {
	used = memoryUsed()
	for range 2 {
		if used <= limit {
			break
		}
		runtime.GC()
		used = memoryUsed()
	}
	return used
}

// checkMemory looks at the memory, once per memoryInterval.
func (s *Server) checkMemory(now time.Time) {
	m := &s.memory
	used := memoryUsed()
	if used > m.soft {
		if now.Before(m.lookAgain) && (used <= m.most || m.futile) {
			return
		}
		used, m.lookAgain = collectAbove(m.soft), now.Add(collectInterval)
	}
	if tight := used > m.soft; tight != m.tight.Swap(tight) {
		s.logTight(now, tight, used)
	}
	m.futile = false
	if used > m.most {
		clients, bytes := closeLargest(s.all(), used-m.soft, memoryLimit)
		if m.futile = clients == 0; !m.futile {
			s.log.Warn("too much memory is in use, closed the clients for which Leash keeps the most",
				"clients", clients, "bytes", bytes, "used", used, "max-memory", m.most)
		}
	}
}

func (s *Server) logTight(now time.Time, tight bool, used int64) {
	switch {
	case !tight:
		s.log.Info("less memory is in use, serving everything again", "used", used)
	case s.memory.warnLimiter.Due(now, memoryWarnings):
		s.log.Warn("much memory is in use, refusing new work", "used", used, "max-memory", s.memory.most)
	default:
		s.log.Debug("much memory is in use, refusing new work", "used", used, "max-memory", s.memory.most)
	}
}

// refuseForMemory refuses a new client while there is too little memory.
func (s *Server) refuseForMemory(c *client.Conn) bool {
	if !s.memory.tight.Load() {
		return false
	}
	s.memory.refused.Add(1)
	s.stats.refused.Add(1)
	_, _ = c.Try([]byte("-" + msgMemory + "\r\n"))
	return true
}

// keeping are the commands, of Redis, after which Leash keeps more for a client than before.
var keeping = map[string]bool{"multi": true, "watch": true, "monitor": true, "client|tracking": true,
	"subscribe": true, "psubscribe": true, "ssubscribe": true}

// refusesMemory reports whether a command must not run because there is too little memory, and it
// is one that needs some. c is nil for a command in no table.
func (s *session) refusesMemory(c *command.Command, cmd resp.Command) bool {
	if !s.server.memory.tight.Load() || !s.needsMemory(c, cmd) {
		return false
	}
	s.server.memory.refused.Add(1)
	return true
}

func (s *session) needsMemory(c *command.Command, cmd resp.Command) bool {
	switch {
	case c == nil:
		return false
	case len(cmd.Raw) > keptBatch:
		return true
	case s.modes&modeMulti != 0:
		return c.Name != "exec" && c.Name != "discard"
	case c.Own != nil:
		return locks.NeedsRoom(c.Own, cmd.Args)
	}
	return keeping[c.Name] || c.Class == command.Pinned && !strings.HasPrefix(c.Name, "wait")
}

// candidate is a client for which Leash keeps bytes.
type candidate struct {
	*session
	bytes  int64
	holder int // 1 for one with locks or permits, otherwise 0
}

// closeLargest closes the clients for which Leash keeps the most, until excess bytes are free.
// Holders of locks are closed last, and never a client that asked for CLIENT NO-EVICT. It returns
// how many it closed, and what Leash kept for them.
func closeLargest(all []*session, excess int64, reason string) (clients int, bytes int64) {
	var candidates []candidate
	for _, one := range all {
		if n := one.buffered(); n >= leastCut && !one.activity.noEvict.Load() {
			candidates = append(candidates, candidate{one, n, min(one.locks.Holds(), 1)})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(a.holder-b.holder, cmp.Compare(b.bytes, a.bytes))
	})
	for _, one := range candidates {
		if bytes >= excess {
			break
		}
		one.kill(reason, false)
		clients++
		bytes += one.bytes
	}
	return clients, bytes
}

// stallsMemory reports whether a client that has read nothing for a while must go, because there is
// too little memory for others.
func (s *session) stallsMemory(output int) bool {
	return s.server.memory.tight.Load() && output >= leastCut && !s.isHolder()
}

// buffered returns the bytes that Leash keeps for the client: commands that are not complete or
// have no reply, commands since MULTI, and replies that the client has not read.
func (s *session) buffered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsCutLocked() {
		return 0
	}
	requests, output := s.calls.SizesLocked()
	return max(int64(requests), s.input.large.Load()) + int64(output) + s.activity.queuedBytes.Load()
}
