package lockcmd

import (
	"fmt"
	"time"

	"leash/lockcmd/hold"
)

// REPLICAS n: a grant counts only if n replicas have it. Otherwise it is taken back (R32). Redis's
// WAIT tells, for the writes of its own connection, and blocks that connection. So these requests
// have connections of their own. A replica that hangs delays only commands with REPLICAS.

const (
	// how long a grant waits for replicas, if BLOCK leaves that much
	replicaTimeout    = time.Second
	minReplicaTimeout = 10 * time.Millisecond // the minimum
)

// msgNoReplicas is the error for a grant that too few replicas have and that was undone.
func msgNoReplicas(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash released it", have, want)
}

// msgNotUndone is msgNoReplicas while Redis has not answered the undo.
func msgNotUndone(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash is still releasing it", have,
		want)
}

// replicaWait is how long a grant waits for replicas. end is the end of BLOCK; zero without.
func replicaWait(end time.Time) time.Duration {
	if end.IsZero() {
		return replicaTimeout
	}
	return max(min(replicaTimeout, time.Until(end)), minReplicaTimeout)
}

// undoUnreplicated takes back a grant that too few replicas have.
func (a *acquisition) undoUnreplicated(r result) result {
	s := a.carrier.service
	undo := s.undo
	switch {
	case r.kind == moved:
		h, _ := a.carry(r)
		undo = func(a *acquisition) <-chan struct{} { return s.undoMoved(a, func() *hold.Hold { return h }) }
	case r.repeated:
		undo = s.undoRepeated
	}
	if s.awaitEnd(undo(a)) {
		return result{kind: failed, text: msgNoReplicas(r.replicas, a.options.replicas)}
	}
	return result{kind: failed, text: msgNotUndone(r.replicas, a.options.replicas)}
}
