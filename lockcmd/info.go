package lockcmd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script"
)

const (
	ttlName  = "LOCK.TTL"
	infoName = "LOCK.INFO"
)

// ttl runs LOCK.TTL from memory: for how many ms from now on the hold is certain (R1).
func (c *Carrier) ttl(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) < 2 {
		return appendError(dst, msgArity(ttlName))
	}
	o, msg := parseOptions(args[2:], ttlWords)
	if msg == "" {
		msg = c.service.keyError(string(args[1]))
	}
	if msg != "" {
		return appendError(dst, msg)
	}
	h := c.ownHold(string(args[1]), o)
	if h == nil && o.token != 0 { // a token proves the hold on any connection
		h = c.service.find(c.id(string(args[1])), o.meansHold)
	}
	if h == nil {
		return appendInt(dst, -2)
	}
	left := h.certainFor().Milliseconds()
	if left <= 0 {
		return appendInt(dst, -2)
	}
	return appendInt(dst, left)
}

// graceState is the state of a free lock that its new master does not grant yet.
const graceState = "grace"

// inspection is what Redis has of a lock.
type inspection struct {
	state  string // "" for held
	owner  string // "" when the lock is free
	mode   string // as Redisson says: plain, read, write
	count  int64
	left   time.Duration  // negative: no TTL
	now    int64          // Redis's clock, ms
	record *script.Record // nil when Leash does not hold it
	queue  int            // FAIR waiters of all Leashes and Java; 0 in a slot migration
	holds  []found        // held through any Leash
	others []found        // held by others, without a record
}

// found is a hold as Redis has it.
type found struct {
	mode   *script.Mode
	owner  string
	count  int64
	record script.Record
	text   string // the record's bytes
}

// find returns the hold that the options mean.
func (info inspection) find(o options) (f found, ok bool) {
	for _, f := range info.holds {
		if (o.token == 0 || f.record.Token == o.token) && (o.owner == "" || f.owner == o.owner) && o.meansMode(f.mode) {
			return f, true
		}
	}
	return found{}, false
}

// excludes reports whether the hold with the options' token ended before a present hold was
// granted. Then no new master can have forgotten it.
func (info inspection) excludes(o options) bool {
	return o.token != 0 && slices.ContainsFunc(info.holds, func(f found) bool { return !f.mode.Shared && f.record.Token > o.token })
}

// inspect reads a lock.
func (s *Service) inspect(lock lockID, until time.Time) (inspection, error) {
	reply, err := s.redis.Ask(&script.Call{Script: script.InspectScript, DB: lock.db, Keys: []string{lock.key, script.QueueKeys(lock.key)[0]}, MinKeys: 1}, until)
	if err != nil {
		return inspection{}, err
	}
	n := script.IntegersOf(reply)
	info := inspection{mode: "plain", left: script.Millis(n[0]), now: n[1]*1000 + n[2]/1000, queue: int(n[3])}
	text := ""
	for i := 4; i+1 < len(n); i += 2 {
		field, value := script.TextAt(reply, i), script.TextAt(reply, i+1)
		switch field {
		case script.RecordField:
			if r, ok := script.ParseRecord(value); ok {
				info.record, text = &r, value
			}
		case "mode":
			info.mode = value
		default:
			info.owner = field
			info.count, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	if info.mode == script.Read.Name || info.mode == script.Write.Name {
		return s.inspectRW(lock, until)
	}
	switch {
	case info.owner == "":
	case info.record == nil:
		info.others = []found{{mode: script.Plain, owner: info.owner}}
	default:
		m := script.Plain
		if info.record.Terms().Fair {
			m = script.Fair
		}
		info.mode = m.Name
		info.holds = []found{{mode: m, owner: info.owner, count: info.count, record: *info.record, text: text}}
	}
	return info, nil
}

// inspectRW reads a read-write lock. The inspection shows the writer, or the reader with the
// longest hold and the sum of the readers' counts.
func (s *Service) inspectRW(lock lockID, until time.Time) (inspection, error) {
	reply, err := s.redis.AskThroughMigration(&script.Call{Script: script.InspectRWScript, DB: lock.db, Keys: script.Read.Keys(lock.key, "")}, until)
	if err != nil {
		return inspection{}, err
	}
	n := script.IntegersOf(reply)
	info := inspection{mode: script.Read.Name, left: script.Millis(n[0]), now: n[1]*1000 + n[2]/1000}
	for i := 3; i+2 < len(n); i += 3 {
		f := found{mode: script.Read, owner: script.TextAt(reply, i), text: script.TextAt(reply, i+2)}
		f.count, _ = strconv.ParseInt(script.TextAt(reply, i+1), 10, 64)
		if owner, ok := strings.CutSuffix(f.owner, ":write"); ok {
			f.mode, f.owner = script.Write, owner
		}
		r, ours := script.ParseRecord(f.text)
		if f.record = r; ours {
			info.holds = append(info.holds, f)
		} else {
			info.others = append(info.others, f)
		}
		info.show(f, ours)
	}
	// newest first
	slices.SortFunc(info.holds, func(a, b found) int { return cmp.Compare(b.record.Token, a.record.Token) })
	return info, nil
}

// show makes f the hold that LOCK.INFO shows, if it ranks before the current one.
func (info *inspection) show(f found, ours bool) {
	writes := f.mode == script.Write
	if info.mode == script.Write.Name && !writes { // a read hold of the writer
		return
	}
	info.count += f.count
	if writes {
		info.mode, info.count = script.Write.Name, f.count
	}
	if info.owner == "" || writes || ours && (info.record == nil || f.record.Token < info.record.Token) {
		info.owner, info.record = f.owner, nil
		if ours {
			info.record = &f.record
		}
	}
}

// info runs LOCK.INFO.
func (c *Carrier) info(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 2 {
		return appendError(dst, msgArity(infoName))
	}
	s, key := c.service, string(args[1])
	if msg := s.keyError(key); msg != "" {
		return appendError(dst, msg)
	}
	info, err := s.inspect(c.id(key), s.deadline())
	if err != nil {
		return c.replyFailure(dst, err)
	}
	if left := s.graces.left(key); info.owner == "" && left > 0 {
		info.left, info.state = left, graceState
	} else if info.owner == "" {
		return appendNil(dst)
	}
	return info.append(dst, s.queues.unfair(c.id(key))+info.queue)
}

// replyFailure answers an error of ask.
func (c *Carrier) replyFailure(dst []byte, err error) []byte {
	if r := failure(err); r.kind == failed {
		return appendError(dst, r.text)
	}
	return c.timeout(dst, msgRefused)
}

// append writes the map of LOCK.INFO. Unknown values of a lock that Redisson holds are nil.
func (info inspection) append(dst []byte, waiters int) []byte {
	r := info.record
	dst = appendArray(dst, 22)
	text := func(name, value string, known bool) {
		dst = appendBulk(dst, name)
		if known {
			dst = appendBulk(dst, value)
		} else {
			dst = appendNil(dst)
		}
	}
	number := func(name string, value int64, known bool) {
		dst = appendBulk(dst, name)
		if known {
			dst = appendInt(dst, value)
		} else {
			dst = appendNil(dst)
		}
	}
	known := r != nil
	if !known {
		r = &script.Record{}
	}
	held := info.state == ""
	text("state", cmp.Or(info.state, "held"), true)
	text("mode", info.mode, held)
	text("owner", info.owner, held)
	number("token", r.Token, known)
	number("holds", info.count, true)
	number("since-ms", r.Since, known)
	number("age-ms", max(info.now-r.Since, 0), known)
	number("ttl-ms", info.left.Milliseconds(), true)
	text("client", r.Client, known && r.Client != "-")
	text("leash", script.CarrierLeash(r.Carrier), known)
	number("waiters", int64(waiters), true)
	return dst
}
