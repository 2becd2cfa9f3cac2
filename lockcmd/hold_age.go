package lockcmd

import (
	"math"
	"time"
)

// now is the time since the Service was made, in ms. It fits into 32 bits, because there may be a
// million holds. It begins at 0 again every 49 days.
func (s *Service) now() uint32 { return uint32(time.Since(s.began).Milliseconds()) }

// age is for how long a carrier of this Leash has h. It is too short by a multiple of 49 days for a
// hold that is older than that.
func (h *hold) age() time.Duration {
	return time.Duration(h.carrier.service.now()-h.since) * time.Millisecond
}

// laterGrants is how long after a time, in ms, a hold may be granted whose age at that time is
// asked for.
const laterGrants = 1 << 20

// ageAt is the age of h in ms at a time of its Service. It is negative if h is younger.
func (h *hold) ageAt(now uint32) int64 {
	if age := now - h.since; age <= math.MaxUint32-laterGrants {
		return int64(age)
	}
	return -int64(h.since - now)
}
