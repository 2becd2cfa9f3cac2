package proxy

import (
	"context"

	"leash/lockcmd"
)

// lockPrefixes begin the names of the commands that lockcmd answers.
var lockPrefixes = [...]string{"LOCK.", "SEM.", "LATCH."}

// isLockCommand reports whether a name is one of those that lockcmd answers.
func isLockCommand(name []byte) bool {
	for _, prefix := range lockPrefixes {
		if len(name) > len(prefix) && isWord(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// lock runs a lock command. It is a barrier both ways (LOCKS.md R15): every
// earlier call has its reply before, nothing later is sent until the answer.
func (s *session) lock(args [][]byte) bool {
	if !s.authenticated() {
		return s.fail(msgNoAuth)
	}
	if !s.barrier() {
		return false
	}
	s.Flush()
	carrier := s.carrier.Load()
	if carrier == nil {
		carrier = s.server.locks.NewCarrier(s.id, (*host)(s))
		s.carrier.Store(carrier)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watcher{session: s, cancel: cancel}
	s.watcher.Store(w)
	reply := carrier.Do(ctx, s.scratch[:0], args)
	s.watcher.Store(nil)
	gone := w.stop()
	cancel()
	s.scratch = reply
	if cap(s.scratch) > keptBatch {
		s.scratch = nil
	}
	if gone != nil {
		s.cause = s.causeOf(gone)
		return false
	}
	return s.answer(reply) && !s.leaveIfDraining()
}

// host is the session as its carrier sees it.
type host session

var _ lockcmd.Host = (*host)(nil)

// Lost implements lockcmd.Host: when it returns, the session is cut off from
// its client and from Redis. lockcmd has logged and counted the loss.
func (h *host) Lost(_ []byte, reason string) {
	(*session)(h).kill("lock lost: "+reason, true)
}

// Guard implements lockcmd.Host.
func (h *host) Guard(on bool) {
	s := (*session)(h)
	if s.guarded.Swap(on) != on {
		s.conn.setKeepAlive(on)
	}
}

// Wait implements lockcmd.Host.
func (h *host) Wait() {
	if w := (*session)(h).watcher.Load(); w != nil {
		w.start()
	}
}

// Client implements lockcmd.Host.
func (h *host) Client() string {
	s := (*session)(h)
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	addr := s.conn.RemoteAddr()
	text := addr.String()
	if addr.Network() == "unix" {
		text = "unix:" + s.conn.LocalAddr().String()
	}
	if name != "" {
		text += " " + name
	}
	return text
}
