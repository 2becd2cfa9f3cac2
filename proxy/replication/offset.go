package replication

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// WAIT answers for the writes of its own connection, and from Redis 7.2 on only for those. On a
// connection without writes, it answers at once that every replica has them (seen with Redis 8.0
// and Valkey 8.1). So Leash writes and deletes a key of its own there, as its own user.

// offsetTries is how often Leash tries to write the key. A slot that is being moved accepts no new
// key.
const offsetTries = 3

// moveOffset moves the replication offset of a pinned connection to the node's current one. If it
// could not, failed is the answer with the reason.
func moveOffset(r *route.Router, own *route.Pin, n *links.Node) (failed *route.Answer) {
	for range offsetTries {
		answers := r.Gather(own.Link(), writeNothing(r.Topology(), n)...)
		if failed = firstFailure(answers); failed == nil || failed.Missing {
			break
		}
	}
	return failed
}

// firstFailure returns the first answer that is lost or an error, or nil.
func firstFailure(answers []*route.Answer) *route.Answer {
	for _, a := range answers {
		if a.Missing || a.IsError() {
			return a
		}
	}
	return nil
}

// writeNothing returns two commands that are replicated and leave nothing behind on n. They write
// and delete a key that no other client uses. The key exists for at most a second.
func writeNothing(t *topology.Snapshot, n *links.Node) [][]byte {
	key := ownKey(func(slot slots.Slot) bool { return !t.Cluster() || t.Node(slot) == n })
	return [][]byte{resp.AppendCommand(nil, "SET", key, "", "PX", "1000"), resp.AppendCommand(nil, "DEL", key)}
}

// ownKey returns a key that no other client uses, in a slot that fits. If several slots fit, each
// call uses a different one.
func ownKey(fits func(slot slots.Slot) bool) string {
	name, from := rand.Text(), mathrand.Uint32()
	var key []byte
	// Usually about as many tries as there are masters. The largest number for one slot was
	// 214,485.
	for i := range uint32(1 << 20) {
		key = fmt.Appendf(key[:0], "leash:wait:{%d}%s", from+i, name)
		if fits(slots.Of(key)) {
			break
		}
	}
	return string(key)
}
