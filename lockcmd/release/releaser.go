package release

import (
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/proxy/slots"
)

// Releaser ends the holds of one Leash, and those of other Leashes for its clients. Set the fields
// before the first call. It is safe for concurrent use.
type Releaser struct {
	*restore.Restorer
	Waiters Waiters
	Tasks   wait.Tasks // releases that go on after their command
	// how long the Leash of a broken hold has to end it, see the constant BreakTimeout
	BreakTimeout time.Duration

	Releases atomic.Int64 // holds ended by their owners or by a disconnect
}

// Waiters are the waiters of this Leash. Their methods are safe for concurrent use.
type Waiters interface {
	// Entry is the entry of the waiters in a mode in the list of turns. It does not block.
	Entry(m *script.Mode) string
	// Waiting reports whether a queue has waiters. It does not block.
	Waiting(id wait.QueueID) bool
	// LeftTurns follows a release that said that a queue has no waiters. It does not block.
	LeftTurns(id wait.QueueID)
	// HandOver ends h and grants its lock to a waiter in one script. It blocks until Redis answers,
	// at most until that time. ok is false if nobody can take the lock, or without an answer. Then
	// a release with the same number must follow, which acts only if this script has not.
	HandOver(h *hold.Hold, end script.EndArgs, until time.Time) (o Handover, ok bool)
}

// Handover is what a hand-over did.
type Handover struct {
	Answer  int64 // as of a release
	Unknown bool  // a copy may still be on its way, also if there is no answer
}

// endWorkers is how many holds of one connection or one command are ended at the same time, on one
// node of Redis.
const endWorkers = 16

// InParallelByNode is InParallel for several keys. Those of each node of Redis have their own
// goroutines, so a node that does not answer delays no others.
func (r *Releaser) InParallelByNode(n int, key func(i int) string, end func(i int)) {
	byNode := make(map[string][]int)
	for i := range n {
		node := r.Redis.Links.NodeAddr(slots.Of([]byte(key(i))))
		byNode[node] = append(byNode[node], i)
	}
	var nodes sync.WaitGroup
	for _, some := range byNode {
		nodes.Go(func() { r.InParallel(len(some), func(j int) { end(some[j]) }) })
	}
	nodes.Wait()
}

// InParallel calls end with every number below n, on up to 16 goroutines, and waits for them. A
// panic of a call is logged and ends that call only.
func (r *Releaser) InParallel(n int, end func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(endWorkers, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = guard.Do(r.Redis.Log, "end of a hold", func() { end(i) })
			}
		})
	}
	workers.Wait()
}
