package proxy

import (
	"sync/atomic"
	"time"
)

// reshardingFor is how long the cluster counts as being resharded after a
// redirect was last seen.
const reshardingFor = 10 * time.Second

// resharding remembers that slots were seen moving lately. A command over
// several keys of a slot may then have to be sent again (TRYAGAIN), so a
// session lets nothing follow it before its reply. Without this, one such
// command with a later one of its slot in the same pipeline would have to be
// answered with the error; it still is if it is the first to meet a move.
// Safe for concurrent use.
type resharding struct {
	until atomic.Int64 // Unix seconds; 0 for never
}

func (r *resharding) mark() { r.until.Store(time.Now().Add(reshardingFor).Unix()) }

func (r *resharding) is() bool {
	until := r.until.Load()
	return until != 0 && until >= time.Now().Unix()
}
