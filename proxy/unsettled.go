package proxy

import (
	"sync/atomic"
	"time"

	"leash/proxy/upstream"
)

// unsettledFor is how long a slot counts as moving after it was last seen to.
const unsettledFor = 10 * time.Second

// unsettled remembers which slots were seen moving lately, by ASK and TRYAGAIN.
// A command over several keys of such a slot may have to be sent again, so a
// session lets nothing follow it before its reply. Safe for concurrent use.
type unsettled struct {
	until [upstream.SlotCount]atomic.Int64 // Unix seconds
	any   atomic.Int64                     // the latest of them
}

func (u *unsettled) mark(slot int) {
	until := time.Now().Add(unsettledFor).Unix()
	u.until[slot].Store(until)
	u.any.Store(until)
}

func (u *unsettled) marked(slot int) bool {
	if u.any.Load() == 0 || slot < 0 {
		return false
	}
	return u.until[slot].Load() >= time.Now().Unix()
}
