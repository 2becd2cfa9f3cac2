package main

import (
	"fmt"
	"strings"
	"time"
)

// lingerSlack is for how long a lock may be in Redis after its lease must be over, beside what was broken.
const lingerSlack = 2 * time.Second

// lingered compares the ends of holds with when Redis had them last: nothing that was released comes back, and nothing stays for longer
// than its lease. It returns the longest time that a lock stayed after its holder's end, and the longest when what was broken does not count.
func (h *history) lingered() (longest, smooth time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var wrong []string
	for _, k := range h.kept {
		forgotten := kindOf(k.key) == "sem" // a late copy of an acquire takes the same permit again, and is undone
		for _, f := range h.forgets {
			forgotten = forgotten || f.failover && h.at(k.sent) <= f.to
		}
		if !k.back.IsZero() && !forgotten { // a failover may also forget releases
			wrong = append(wrong, fmt.Sprintf("hold %d of %s, token %s, was released before %v and is in Redis at %v", k.hold, k.key, k.token,
				time.Duration(h.at(k.released)), time.Duration(h.at(k.back))))
		}
		from, base := k.ended, k.base
		if k.hold == 0 { // nobody was told of it: it is taken back, or runs out
			from, base = k.sent, 2*ttl
		}
		if from.IsZero() || !k.seen.After(from) {
			continue
		}
		stayed := k.seen.Sub(from)
		longest = max(longest, stayed)
		rough := h.weather.rough(from, k.seen)
		smooth = max(smooth, stayed-rough)
		if stayed > base+lingerSlack+rough {
			wrong = append(wrong, fmt.Sprintf("hold %d of %s, token %s, ended at %v and is in Redis %v later", k.hold, k.key, k.token,
				time.Duration(h.at(from)), round(stayed)))
		}
	}
	if len(wrong) > 0 {
		err = fmt.Errorf("%d locks stayed too long:\n  %s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n  "))
	}
	return longest, smooth, err
}
