package lockcmd

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
)

// identity is what tells this Leash, its connections and its owners from others.
type identity struct {
	uuid     string       // in owners and carriers
	fairBit  string       // in the scores of FAIR waiters
	owners   atomic.Int64 // number of the last generated owner
	carriers atomic.Int64 // number of the last carrier
}

func newIdentity() identity {
	return identity{uuid: newUUID(), fairBit: newFairBit()}
}

// newUUID returns a random UUID, like that of a Redisson client.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
