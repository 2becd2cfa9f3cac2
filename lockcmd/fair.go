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

// waitPatience is long enough for looks that Redis answers late, and shorter than a dead holder's
// lease.
const waitPatience = 10 * time.Second

// soonHeard is how soon a Leash lets hear of its waiters, though one of its looks is answered late.
const soonHeard = 6 * time.Second

// newWay is a bit that stands for one Leash in the scores of our waiters, which have room for ten.
// A waiter whose client has gone on through another Leash keeps its place when the first one
// notices; with one in ten pairs of Leashes, who have the same bit, it does not.
func newWay() string { return strconv.Itoa(1 << rand.IntN(10)) }

// stands reports whether t has, or may have, a place in a queue in Redis while it is neither
// granted nor over.
func (t *try) stands() bool { return t.wish.mode.fair && t.wish.wait }

// patience is what a FAIR try's request says of for how long it is to be waited for, in ms; "" for
// one that does not wait.
func (t *try) patience() string {
	if !t.stands() {
		return ""
	}
	return millisText(t.carrier.service.patience)
}
