package main

import (
	"fmt"
	"strings"
	"time"
)

// lingerSlack is for how long a lock may be in Redis after its lease must be over, beside what was
// broken.
const lingerSlack = 2 * time.Second

// longestAfterEnd compares the ends of holds with when Redis had them last: nothing that was
// released comes back, and nothing stays for longer than its lease. It returns the longest time
// that a lock stayed after its holder's end, and the longest when what was broken does not count.
// Whoever wrote the history must have ended.
func (h *history) longestAfterEnd() (longest, smooth time.Duration, err error) {
	var wrong []string
	blame := func(k *kept, from time.Time, format string, args ...any) {
		text := fmt.Sprintf("hold %d of %s, token %s, ", k.hold, k.key, k.token) + fmt.Sprintf(format, args...)
		if len(wrong) < storiesTold {
			text += "\n    in the order of time\n" + h.eventsOf(k.key, []int{k.hold}, h.at(from.Add(-time.Second)), h.at(k.seen.Add(storyAfter)))
		}
		wrong = append(wrong, text)
	}
	for _, k := range h.kept {
		// a late copy of an acquire takes the same permit again, and is undone
		forgotten := kindOf(k.key) == "sem"
		for _, f := range h.forgets {
			forgotten = forgotten || f.failover && h.at(k.sent) <= f.to
		}
		if !k.back.IsZero() && !forgotten { // a failover may also forget releases
			blame(k, k.released, "was released before %v and is in Redis at %v", h.when(k.released), h.when(k.back))
		}
		from, base := k.over(), k.base
		if k.hold == 0 { // nobody was told of it: it is taken back, or runs out
			from, base = k.sent, 2*ttl
		}
		if from.IsZero() || !k.seen.After(from) {
			continue
		}
		stayed := k.seen.Sub(from)
		longest = max(longest, stayed)
		rough := h.faults.disturbed(from, k.seen) + h.lengthened(k.key, k.sent, k.seen)
		smooth = max(smooth, stayed-rough)
		if stayed > base+lingerSlack+rough {
			blame(k, from, "ended at %v and is in Redis %v later, which is %v too long beside the %v in which something was broken, or by which a clock was set back", h.when(from),
				round(stayed), round(stayed-base-lingerSlack-rough), round(rough))
		}
	}
	if len(wrong) > 0 {
		err = fmt.Errorf("%d locks stayed too long:\n  %s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n  "))
	}
	return longest, smooth, err
}
