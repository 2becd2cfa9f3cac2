package lockcmd

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// A FAIR waiter has a place in a queue in Redis, that of Redisson's RedissonFairLock. It is behind
// everybody who came before, through any Leash or from Java. Its first attempt adds it, each later
// one (R17) keeps it alive, and the end of its wait removes it. If its Leash dies, the next waiter
// that attempts removes it after fairTimeout.

// fairTimeout is how long a waiter stays alive without an attempt. It leaves time for slow answers
// of Redis and is shorter than the lease of a dead holder.
const fairTimeout = 10 * time.Second

// fairHeartbeat is how soon a living Leash refreshes its waiters, even if one of its attempts is
// answered late.
const fairHeartbeat = 6 * time.Second

// newFairBit returns the bit of this Leash in the scores of our FAIR waiters, which have room for
// ten bits. If a client goes on through another Leash, the bits keep its place in the queue when
// the first Leash notices the disconnect. One pair of Leashes in ten has the same bit and cannot do
// so.
func newFairBit() string { return strconv.Itoa(1 << rand.IntN(10)) }

// waitsFair reports whether the acquisition has, or may have, a place in the queue in Redis until
// it is granted or over.
func (a *acquisition) waitsFair() bool { return a.options.mode.Fair && a.options.wait }
