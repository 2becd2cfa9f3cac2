package history

import (
	"fmt"
	"strings"
	"time"
)

// lingerSlack is how long a lock may stay in Redis after its lease must have expired. Time in which
// something was broken is added to it.
const lingerSlack = 2 * time.Second

// LongestAfterEnd compares the end of each hold with the last time that Redis had it. A released
// lock must not come back, and no lock may stay longer than its lease. longest is the longest time
// that a lock stayed after its hold ended. smooth is the same without the time in which something
// was broken, and without the time by which a clock was set back. Call it when nothing writes to
// the history any more.
func (h *History) LongestAfterEnd() (longest, smooth time.Duration, err error) {
	var wrong []string
	report := func(k *RedisHold, from time.Time, format string, args ...any) {
		text := fmt.Sprintf("hold %d of %s, token %s, ", k.Hold, k.Key, k.Token) + fmt.Sprintf(format, args...)
		if len(wrong) < maxReports {
			text += "\n    in the order of time\n" + h.eventsOf(k.Key, []int{k.Hold}, h.At(from.Add(-time.Second)), h.At(k.seen.Add(reportAfter)))
		}
		wrong = append(wrong, text)
	}
	for _, k := range h.redisHolds {
		// A late copy of an acquire takes the same permit again. Leash then gives the permit back.
		forgotten := KindOf(k.Key) == "sem"
		for _, f := range h.forgets {
			forgotten = forgotten || f.failover && h.At(k.Sent) <= f.to
		}
		if !k.reappeared.IsZero() && !forgotten { // a failover may forget a release
			report(k, k.released, "was released before %v and is in Redis at %v", h.When(k.released), h.When(k.reappeared))
		}
		from, base := k.over(), k.Base
		if k.Hold == 0 { // no client was told of it: Leash releases it, or it expires
			from, base = k.Sent, 2*TTL
		}
		if from.IsZero() || !k.seen.After(from) {
			continue
		}
		stayed := k.seen.Sub(from)
		longest = max(longest, stayed)
		rough := h.Faults.Disturbed(from, k.seen) + h.Lengthened(k.Key, k.Sent, k.seen)
		smooth = max(smooth, stayed-rough)
		if stayed > base+lingerSlack+rough {
			report(k, from, "ended at %v and is in Redis %v later, which is %v too long beside the %v in which something was broken, or by which a clock was set back", h.When(from),
				Round(stayed), Round(stayed-base-lingerSlack-rough), Round(rough))
		}
	}
	if len(wrong) > 0 {
		err = fmt.Errorf("%d locks stayed too long:\n  %s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n  "))
	}
	return longest, smooth, err
}
