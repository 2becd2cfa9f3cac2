package limits

import (
	"sync/atomic"
	"time"
)

// Interval allows an event once per interval, such as a warning. The zero value allows the first
// one at once. It is safe for concurrent use.
type Interval struct{ last atomic.Int64 }

// Due reports whether the event is allowed now. If it is, a new interval begins.
func (l *Interval) Due(now time.Time, interval time.Duration) bool {
	last := l.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(interval)) && l.last.CompareAndSwap(last, now.UnixNano())
}
