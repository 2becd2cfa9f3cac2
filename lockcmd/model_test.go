package lockcmd_test

import (
	"slices"
	"strconv"

	"leash/lockcmd"
	"leash/lockcmd/refusal"
)

// model is one lock according to the rules. Random walks compare it with the replies of two
// Leashes. Nothing in it expires by itself.
type model struct {
	holds   []*modelHold
	answers map[string]string // to releases with an ID, by owner and ID
	clock   int               // counts moves to a connection
}

type modelHold struct {
	mode   string // "", "FAIR", "READ" or "WRITE"
	owner  string // "" for an owner of its own
	token  int64
	count  int
	last   string // the ID of the last acquire
	at     *walker
	since  int // the clock when it got its carrier
	leased bool
	stays  bool
}

// question is what a command asks for.
type question struct {
	from     *walker
	mode     string
	owner    string
	id       string
	token    int64
	leased   bool
	stays    bool
	waits    bool
	replicas bool
	all      bool
}

const newToken = "a new token"

func (h *modelHold) plain() bool { return h.mode == "" || h.mode == "FAIR" }

func (h *modelHold) like(mode string) bool {
	return h.mode == mode || h.plain() && (mode == "" || mode == "FAIR")
}

// find returns the last hold, in the order of by, that match accepts. It returns nil if there is
// none.
func (m *model) find(by func(*modelHold) int64, match func(*modelHold) bool) (found *modelHold) {
	for _, h := range m.holds {
		if match(h) && (found == nil || by(h) > by(found)) {
			found = h
		}
	}
	return found
}

func byToken(h *modelHold) int64 { return h.token }
func byTime(h *modelHold) int64  { return int64(h.since) }

func (m *model) setCarrier(h *modelHold, at *walker) {
	m.clock++
	h.at, h.since = at, m.clock
}

func (m *model) end(h *modelHold) {
	m.holds = slices.DeleteFunc(m.holds, func(other *modelHold) bool { return other == h })
}

// acquire returns the expected reply to an ACQUIRE. If it is newToken, granted must be called next.
func (m *model) acquire(q question) (reply string) {
	if q.waits && m.find(byTime, func(h *modelHold) bool {
		return h.at == q.from && (q.owner == "" || h.owner != q.owner) && !(h.mode == "READ" && q.mode == "READ")
	}) != nil {
		return "-" + refusal.Deadlock
	}
	own := m.find(byToken, func(h *modelHold) bool { return q.owner != "" && h.owner == q.owner && h.like(q.mode) })
	if own == nil {
		return m.replyIfTaken(q)
	}
	again := q.id != "" && q.id == own.last
	switch {
	case own.at != q.from && !again:
		return "-" + refusal.Elsewhere
	case own.at != q.from:
		m.setCarrier(own, q.from)
	case !again:
		own.count++
		own.last, own.leased = q.id, own.leased && q.leased
	}
	if q.replicas {
		m.release(own, false)
		own.last = "" // the undone acquire has no ID to repeat
		return "-" + "NOREPLICAS 0 of 1 replicas confirmed the lock in time, Leash released it"
	}
	return tokenReply(own)
}

// replyIfTaken returns the expected reply to an ACQUIRE whose owner has no hold of that mode.
func (m *model) replyIfTaken(q question) string {
	kin := m.find(byToken, func(h *modelHold) bool { return q.owner != "" && h.owner == q.owner })
	writer := m.find(byToken, func(h *modelHold) bool { return h.mode == "WRITE" })
	other := m.find(byToken, func(h *modelHold) bool { return h.mode != "READ" })
	switch {
	case kin != nil && kin == writer && q.mode == "READ" && kin.at != q.from:
		return "-" + refusal.Elsewhere
	case kin != nil && kin == writer && q.mode == "READ":
	case kin != nil:
		return "-" + refusal.OtherMode
	case len(m.holds) > 0 && (q.mode != "READ" || other != nil):
		return "$-1"
	}
	if q.replicas {
		return "-" + "NOREPLICAS 0 of 1 replicas confirmed the lock in time, Leash released it"
	}
	return newToken
}

func (m *model) granted(q question, token int64) {
	h := &modelHold{mode: q.mode, owner: q.owner, token: token, count: 1, last: q.id, leased: q.leased, stays: q.stays}
	m.holds = append(m.holds, h)
	m.setCarrier(h, q.from)
}

func tokenReply(h *modelHold) string { return ":" + strconv.FormatInt(h.token, 10) }

// means reports whether the options of a command select the hold h.
func (q question) means(h *modelHold) bool {
	return (q.token == 0 || h.token == q.token) && (q.owner == "" || h.owner == q.owner) &&
		(q.mode == "" || h.mode == q.mode)
}

// unlock returns the expected reply to a RELEASE.
func (m *model) unlock(q question) (reply string) {
	answer := q.owner + ":" + q.id
	if q.id != "" && m.answers[answer] != "" {
		return m.answers[answer]
	}
	var h *modelHold
	if q.id == "" {
		h = m.find(byTime, func(h *modelHold) bool { return h.at == q.from && q.means(h) })
	}
	if h == nil && q.id == "" && (q.token != 0 || q.owner != "") {
		h = m.find(byTime, func(h *modelHold) bool {
			return h.at.alive && h.at.service == q.from.service && q.means(h)
		})
	}
	if h == nil && (q.token != 0 || q.owner != "") {
		h = m.find(byToken, q.means)
	}
	if h == nil {
		return "-" + refusal.NotHeld
	}
	reply = m.release(h, q.all)
	if q.id != "" {
		m.answers[answer] = reply
	}
	return reply
}

// release removes one count of a hold, or ends it.
func (m *model) release(h *modelHold, all bool) (reply string) {
	if h.count > 1 && !all {
		h.count--
		return ":0"
	}
	m.end(h)
	return ":1"
}

// attach returns the expected reply to an ATTACH. closed is the connection that loses the hold.
func (m *model) attach(q question) (reply string, closed *walker) {
	h := m.find(byToken, q.means)
	if h == nil {
		return "-" + refusal.NotHeld, nil
	}
	if h.at != q.from {
		closed = h.at
		m.setCarrier(h, q.from)
	}
	return tokenReply(h), closed
}

// extend returns the expected reply to an EXTEND.
func (m *model) extend(q question, ms int64) string {
	if q.token == 0 && q.owner == "" {
		h := m.find(byTime, func(h *modelHold) bool { return h.at == q.from })
		if h == nil {
			return "-" + refusal.NotHeld
		}
		q.token = h.token
	}
	q.mode = ""
	switch h := m.find(byToken, q.means); {
	case h == nil:
		return "-" + refusal.NotHeld
	case !h.leased:
		return "-" + refusal.IsRenewed
	}
	return ":" + strconv.FormatInt(ms, 10)
}

// closed ends a connection.
func (m *model) closed(w *walker, how lockcmd.Ending) {
	for _, h := range slices.Clone(m.holds) {
		if h.at == w && how == lockcmd.Release && !h.leased && !h.stays {
			m.end(h)
		}
	}
}
