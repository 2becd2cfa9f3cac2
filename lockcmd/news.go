package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// News is what Leashes tell one another on their channels of holds they ended or moved: how, token,
// carrier and key, with one space between. It may be lost or forged; Redis is asked before anything
// is done about it (R25).

func newsText(how string, token int64, carrier, key string) string {
	return how + " " + strconv.FormatInt(token, 10) + " " + carrier + " " + key
}

const (
	earlyFor = 10 * time.Second // a grant that is not known by then has been taken for lost
	maxEarly = 4096
)

// heardOf is the hold that a piece of news is about.
type heardOf struct {
	token   int64
	carrier string
}

// early is news of a hold that this Leash does not know yet: it may overtake the reply to the
// grant.
type early struct {
	hows []string
	at   time.Time
}

// hear takes a piece of news.
func (s *Service) hear(news string) {
	f := strings.SplitN(news, " ", 4)
	if len(f) != 4 {
		return
	}
	token, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return
	}
	of := heardOf{token, f[2]}
	switch h := s.heard(f[0], of, f[3]); {
	case h != nil:
		s.heed(h, f[0])
	case f[0] == watchedText, f[0] == brokenText: // too late
		s.tellLate(of)
	}
}

// heard is the present hold of key that the news is about, whatever its database, which the news
// does not name. When there is none, the news is kept for a hold of ours to come.
func (s *Service) heard(how string, of heardOf, key string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.holds.of(key) {
		if h.token == of.token && h.carrier.name == of.carrier {
			return h
		}
	}
	if carrierLeash(of.carrier) != s.uuid || how == wantedText && s.notified.Load() == 0 {
		return nil
	}
	for known, e := range s.early {
		if len(s.early) >= maxEarly || time.Since(e.at) > earlyFor {
			delete(s.early, known)
		}
	}
	e := s.early[of]
	if len(e.hows) < 8 {
		e.hows = append(e.hows, how)
	}
	e.at = time.Now()
	s.early[of] = e
	return nil
}

// catchUp heeds what was heard of h before it was in the books.
func (s *Service) catchUp(h *hold) {
	of := heardOf{h.token, h.carrier.name}
	s.mu.Lock()
	e := s.early[of]
	delete(s.early, of)
	s.mu.Unlock()
	for _, how := range e.hows {
		s.heed(h, how)
	}
}

// heed lets the watchdog look at h, or us, when it is to be broken: the watchdog would find it
// there.
func (s *Service) heed(h *hold, how string) {
	switch how {
	case brokenText:
		s.spawn(func() { s.obey(h) })
	case watchedText:
		if !h.watchedFromAfar() {
			s.tellLate(heardOf{h.token, h.carrier.name})
		}
	case wantedText:
		h.want()
	case lessenedText:
		s.spawn(h.recount)
	default:
		s.watchdog.Check(&h.watch)
	}
}
