package call

import (
	"sync/atomic"
	"time"
)

// reshardingFor is how long after the last redirect the cluster counts as resharding.
const reshardingFor = 10 * time.Second

// Resharding remembers that slots have moved within reshardingFor. A command with several keys of
// one slot may then have to be sent again (TRYAGAIN). So a session sends nothing after it before
// its reply. A later command on its slot would otherwise prevent the second attempt, and the client
// would get the error. The first command that meets a move may still get that error. Safe for
// concurrent use.
type Resharding struct {
	until atomic.Int64 // Unix seconds; 0 for never
}

// Mark records that slots move now.
func (r *Resharding) Mark() { r.until.Store(time.Now().Add(reshardingFor).Unix()) }

// Is reports whether slots have moved recently.
func (r *Resharding) Is() bool {
	until := r.until.Load()
	return until != 0 && until >= time.Now().Unix()
}
