package lockcmd

import "fmt"

// msgNoReplicas is the error for a grant that too few replicas have and that was undone.
func msgNoReplicas(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash released it", have, want)
}

// msgNotUndone is msgNoReplicas while Redis has not answered the undo.
func msgNotUndone(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash is still releasing it", have,
		want)
}
