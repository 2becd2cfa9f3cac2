package proxy

import (
	"sync/atomic"
	"time"
)

// unsettledFor is how long the cluster counts as being resharded after a
// redirect was last seen.
const unsettledFor = 10 * time.Second

// unsettled remembers that slots were seen moving lately. A command over
// several keys of a slot may then have to be sent again (TRYAGAIN), so a
// session lets nothing follow it before its reply. Without this, one such
// command with a later one of its slot in the same pipeline would have to be
// answered with the error; it still is if it is the first to meet a move.
// Safe for concurrent use.
type unsettled struct {
	until atomic.Int64 // Unix seconds; 0 for never
}

func (u *unsettled) mark() { u.until.Store(time.Now().Add(unsettledFor).Unix()) }

func (u *unsettled) is() bool {
	until := u.until.Load()
	return until != 0 && until >= time.Now().Unix()
}
