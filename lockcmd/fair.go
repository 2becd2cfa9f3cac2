package lockcmd

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// A FAIR waiter stands in Redis, in the queue that Redisson's RedissonFairLock has, behind whoever
// came before it through any Leash or from Java. Its first look puts it there, each later one (R17)
// says that it still waits, and whatever ends its wait takes it out. Who is not heard of for
// waitPatience, for its Leash has died, is taken out by the next one who looks.

// fairTimeout is long enough for looks that Redis answers late, and shorter than a dead holder's
// lease.
const fairTimeout = 10 * time.Second

// fairHeartbeat is how soon a Leash lets hear of its waiters, though one of its looks is answered late.
const fairHeartbeat = 6 * time.Second

// newFairBit is a bit that stands for one Leash in the scores of our waiters, which have room for ten.
// A waiter whose client has gone on through another Leash keeps its place when the first one
// notices; with one in ten pairs of Leashes, who have the same bit, it does not.
func newFairBit() string { return strconv.Itoa(1 << rand.IntN(10)) }

// waitsFair reports whether t has, or may have, a place in a queue in Redis while it is neither
// granted nor over.
func (a *acquisition) waitsFair() bool { return a.options.mode.fair && a.options.wait }

// fairTimeoutArg is what a FAIR try's request says of for how long it is to be waited for, in ms; "" for
// one that does not wait.
func (a *acquisition) fairTimeoutArg() string {
	if !a.waitsFair() {
		return ""
	}
	return millisText(a.carrier.service.fairTimeout)
}
