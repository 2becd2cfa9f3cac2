package script

import (
	"sync/atomic"
	"time"
)

// roundTrip is an estimate of how long a call takes. It follows a shorter call at once and longer
// ones slowly. It is safe for concurrent use.
type roundTrip struct{ nanos atomic.Int64 }

func (r *roundTrip) note(d time.Duration) {
	old := r.nanos.Load()
	if old == 0 || int64(d) < old {
		r.nanos.Store(int64(d))
		return
	}
	r.nanos.Store(old + (int64(d)-old)/16)
}

// RoundTrip is about how long the last calls took.
func (c *Client) RoundTrip() time.Duration { return time.Duration(c.roundTrip.nanos.Load()) }
