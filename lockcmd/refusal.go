package lockcmd

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// refusals has the reasons why nodes of Redis refused requests recently, such as BUSY, LOADING,
// READONLY or MISCONF. A reason is added to LOCKTIMEOUT, and logged once until the node takes
// requests again. It is safe for concurrent use.
type refusals struct {
	some atomic.Bool // byNode is not empty

	mu     sync.Mutex
	byNode map[string]refusal
}

type refusal struct {
	text string // Redis's own words
	at   time.Time
}

// noteRefusal notes that the node of a call refused it for now.
func (s *Service) noteRefusal(call *scriptCall, err error) {
	var reply redis.Error
	if !errors.As(err, &reply) || script.Migrates(reply) {
		return
	}
	node, text := s.nodeOf(call.keys[0]), script.ErrorText(reply)
	f := &s.refusals
	f.mu.Lock()
	known := f.byNode[node]
	if f.byNode == nil {
		f.byNode = make(map[string]refusal)
	}
	f.byNode[node] = refusal{text, time.Now()}
	f.some.Store(true)
	f.mu.Unlock()
	if known.text != text {
		s.log.Warn("redis refuses lock scripts", "node", node, "err", text)
	}
}

// quietAfterRefusal is how long a node must have refused nothing before the log says that it takes
// lock scripts again. One success proves little: a script that has nothing to write succeeds on a
// read-only node too.
const quietAfterRefusal = 5 * time.Second

// noteSuccess notes that the node of a call took it.
func (s *Service) noteSuccess(call *scriptCall) {
	f := &s.refusals
	if !f.some.Load() {
		return
	}
	node := s.nodeOf(call.keys[0])
	f.mu.Lock()
	known, refusing := f.byNode[node]
	over := refusing && time.Since(known.at) >= quietAfterRefusal
	if over {
		delete(f.byNode, node)
	}
	f.some.Store(len(f.byNode) > 0)
	f.mu.Unlock()
	if over {
		s.log.Info("redis takes lock scripts again", "node", node)
	}
}

// refusedSince is why the node of a key refused a request after since, "" if it did not.
func (s *Service) refusedSince(key string, since time.Time) string {
	f := &s.refusals
	if !f.some.Load() {
		return ""
	}
	node := s.nodeOf(key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.byNode[node]; known.at.After(since) {
		return known.text
	}
	return ""
}

// nodeOf is the address of the node of a key, for logs.
func (s *Service) nodeOf(key string) string {
	if s.cfg.NodeAddr == nil {
		return "redis"
	}
	return s.cfg.NodeAddr(script.SlotOf(key))
}
