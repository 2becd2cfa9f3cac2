package lockcmd

import (
	"log/slog"
	"sync"

	"leash/internal/guard"
)

// tasks are goroutines of the Service that outlive their command. It is safe for concurrent use. No
// other mutex is taken with its own.
type tasks struct {
	log     *slog.Logger // of panics
	mu      sync.Mutex
	ended   bool // no more begin; guarded by mu
	running sync.WaitGroup
}

// Spawn runs f. It returns false after end.
func (t *tasks) Spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.running.Go(guard.Func(t.log, "lock task", f))
	return true
}

// end lets no more tasks begin.
func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// wait waits for the last task, after end.
func (t *tasks) wait() { t.running.Wait() }
