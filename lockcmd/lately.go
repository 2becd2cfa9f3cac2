package lockcmd

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	latelyFor = 10 * time.Second // a question about a hold that has ended comes sooner
	maxLately = 4096
)

// lately is what holds of this Leash were lost for, in the last while. Somebody on another Leash who has just begun to wait for the end of a hold may
// ask when it is over already; with what is not here all was well, for losses are few and other ends are many. Safe for concurrent use.
type lately struct {
	mu    sync.Mutex
	lost  map[heardOf]lateLoss
	blind time.Time // until then losses may be missing here, for there were too many
}

type lateLoss struct {
	reason string
	at     time.Time
}

// add notes a loss.
func (l *lately) add(of heardOf, reason string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lost) >= maxLately && now.After(l.blind) {
		for other, loss := range l.lost {
			if now.Sub(loss.at) > latelyFor {
				delete(l.lost, other)
			}
		}
	}
	if len(l.lost) >= maxLately {
		l.blind = now.Add(latelyFor)
		return
	}
	if l.lost == nil {
		l.lost = make(map[heardOf]lateLoss)
	}
	l.lost[of] = lateLoss{reason, now}
}

// reason is why a hold of this Leash that is not there any more was lost, "" when it was not. known is false when nobody can say.
func (l *lately) reason(of heardOf) (reason string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	loss, ok := l.lost[of]
	return loss.reason, ok || time.Now().After(l.blind)
}

// maxInquiries is how many that ask too late are answered at once; others find out by themselves, a little less exactly.
const maxInquiries = 1024

// missed answers those on another Leash who miss a hold of this one that has ended here as well. One that has not is looked for.
func (s *Service) missed(of heardOf, where string) {
	number, key, _ := strings.Cut(where, " ")
	db, err := strconv.ParseUint(number, 10, 31)
	if err != nil || carrierLeash(of.carrier) != s.uuid {
		return
	}
	if h := s.heard(missedText, of, key); h != nil && h.watchedFromAfar() {
		s.watchdog.Check(&h.watch)
		return
	}
	reason, known := s.lately.reason(of)
	if !known {
		return
	}
	text := overText
	if reason != "" {
		text = lostText + " " + reason
	}
	answer := func() {
		defer s.inquiries.Add(-1)
		s.engrave(lockID{int(db), key}, of, text, 2*s.cfg.WatchdogTimeout)
	}
	if s.inquiries.Add(1) > maxInquiries || !s.spawn(answer) {
		s.inquiries.Add(-1)
	}
}
