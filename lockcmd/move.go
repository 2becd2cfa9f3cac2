package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// move hangs the hold of t's owner, which hangs on another carrier, on this one: t repeats the request that was the hold's
// last (R4). The old carrier is told, and forgets it.
func (c *Carrier) move(t *try, token int64, from string, until time.Time) result {
	s, key := c.service, t.wish.key
	keep := max(t.wish.ttl, s.cfg.WatchdogTimeout).Milliseconds()
	old := s.find(t.wish.lock(), func(h *hold) bool { return h.token == token && h.carrier.name == from })
	channel, news := "", ""
	if old == nil {
		channel, news = carrierChannel(from), newsText("moved", token, from, key)
	}
	r := &request{
		script: t.wish.mode.move, db: t.wish.db,
		keys: t.wish.mode.keys(key, t.owner, tombstoneKey(key, token, from), tombstoneKey(key, token, c.name)),
		args: []any{
			t.owner, token, from, recordID(t.wish.id), c.name, t.number, recordClient(c.host.Client()), keep, channel, news,
		},
	}
	if old != nil {
		if !old.open(until) {
			return result{kind: busy, text: msgRefused}
		}
		defer old.close()
	}
	reply, err := s.ask(r, until)
	if err != nil {
		return failure(err)
	}
	n := numbers(reply)
	if n[0] != 1 || len(n) < 6 {
		return result{kind: failed, text: msgElsewhere}
	}
	if old != nil {
		old.forget(held, lessening, releasing)
	}
	return result{
		kind: moved, token: n[1], left: millis(n[2]), sent: r.sent, ttl: millis(n[3]), lease: word(reply, 4) != "w",
		count: n[5],
	}
}

// News is what Leashes tell one another on their channels of holds they ended or moved: how, token, carrier and key, with one
// space between. It may be lost or forged; Redis is asked before anything is done about it (R25).

func newsText(how string, token int64, carrier, key string) string {
	return how + " " + strconv.FormatInt(token, 10) + " " + carrier + " " + key
}

// hear lets the watchdog look at the hold that a piece of news is about.
func (s *Service) hear(news string) {
	f := strings.SplitN(news, " ", 4)
	if len(f) != 4 {
		return
	}
	token, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return
	}
	for _, h := range s.everywhere(f[3]) { // the news does not name the database
		if h.token == token && h.carrier.name == f[2] {
			s.watchdog.Check(&h.watch)
		}
	}
}
