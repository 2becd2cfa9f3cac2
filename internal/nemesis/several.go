package main

import (
	"strconv"

	"leash/internal/nemesis/history"
)

// several acquires more than one lock: all or none.
func (w *worker) several() {
	var keys []string
	for _, key := range w.bed.keys {
		if history.KindOf(key) == "lock" && !w.oneIn(3) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return
	}
	w.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	r := &request{key: keys[0], mode: "several", ttl: history.TTL, args: append([]string{"LOCK.MACQUIRE", strconv.Itoa(len(keys))}, keys...)}
	w.terms(r)
	if w.oneIn(3) {
		r.owner = "several:" + w.nextID()
		r.with("OWNER", r.owner)
	}
	reply, sent, got := w.acquire(r)
	tokens := tokensOf(reply)
	if len(tokens) == 0 {
		return
	}
	if len(tokens) != len(keys) {
		w.tally.Violation(r.key, 0, "%v was answered %q", r.args, reply)
		return
	}
	var g holdGroup
	for i, token := range tokens {
		number, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			w.tally.Violation(r.key, 0, "%v was answered %q", r.args, reply)
			continue
		}
		part := *r
		part.mode = "plain"
		g = append(g, believe(w.history, &part, keys[i], token, number, sent, got))
	}
	if w.begin(g) {
		w.release(g)
	}
}

// quorum acquires most of quorumKeys. They count as one hold: no other client may have a quorum at
// the same time.
func (w *worker) quorum() {
	keys := append([]string(nil), history.QuorumKeys...)
	w.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	need := len(keys)/2 + 1
	r := &request{key: history.QuorumKey, mode: "quorum", ttl: history.TTL, args: append([]string{"LOCK.MACQUIRE", strconv.Itoa(len(keys))}, keys...)}
	r.with("QUORUM", strconv.Itoa(need))
	if !w.oneIn(4) {
		r.wait = w.millis(1, 4000)
		r.with("BLOCK", ms(r.wait))
	}
	reply, sent, got := w.acquire(r)
	tokens := tokensOf(reply)
	if len(tokens) == 0 {
		return
	}
	b := believe(w.history, r, history.QuorumKey, "", 0, sent, got)
	for i, token := range tokens {
		number, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			continue // nil: this lock was not granted
		}
		w.history.Add(keys[i], history.Op{Action: history.Grant, Mode: r.mode, Hold: b.hold, Token: number}, sent, got)
		b.keep(r, keys[i], token, sent, got)
	}
	if len(b.parts) < need {
		w.tally.Violation(r.key, 0, "%v was answered %q", r.args, reply)
	}
	if g := (holdGroup{b}); w.begin(g) {
		w.release(g)
	}
}

// mrelease returns a command that releases several locks.
func (w *worker) mrelease(g holdGroup) []string {
	var keys, tokens []string
	for _, b := range g {
		for _, k := range b.parts {
			keys, tokens = append(keys, k.Key), append(tokens, k.Token)
		}
	}
	args := append([]string{"LOCK.MRELEASE", strconv.Itoa(len(keys))}, keys...)
	switch {
	case g[0].owner != "" && w.oneIn(2):
		return append(args, "OWNER", g[0].owner)
	case g[0].mode != "quorum" && w.oneIn(4):
		return args
	}
	return append(append(args, "TOKENS"), tokens...)
}
