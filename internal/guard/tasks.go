package guard

import (
	"log/slog"
	"sync"
)

// Tasks are goroutines with a common end. The zero value has none. It is safe for concurrent use.
// No other mutex is taken with its own.
type Tasks struct {
	// Log and What are those of Func, for panics. Set them before the first Spawn.
	Log  *slog.Logger
	What string

	mu      sync.Mutex
	ended   bool // no more begin; guarded by mu
	running sync.WaitGroup
}

// Spawn runs f. It returns false after End. It does not block.
func (t *Tasks) Spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.running.Go(Func(t.Log, t.What, f))
	return true
}

// End lets no more tasks begin.
func (t *Tasks) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// Wait waits for the last task, after End.
func (t *Tasks) Wait() { t.running.Wait() }
