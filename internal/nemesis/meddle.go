package main

import (
	"regexp"
	"strings"
	"time"
)

// idOf finds the id and the last command of a client in what CLIENT LIST says.
var idOf = regexp.MustCompile(`(?m)^id=(\d+) .* cmd=(\S+)`)

// meddle does to some other client of the same Leash what an operator may: it ends its wait, or its connection.
func (w *worker) meddle() {
	list, _, err := w.conn.do(time.Now().Add(replyPatience), "CLIENT", "LIST")
	if err != nil {
		w.tally.add("meddle", "no reply")
		w.drop()
		return
	}
	var waiting []string // or so it seems
	for _, m := range idOf.FindAllStringSubmatch(list, -1) {
		if strings.Contains(m[2], "acquire") || strings.Contains(m[2], "await") {
			waiting = append(waiting, m[1])
		}
	}
	if len(waiting) == 0 {
		w.tally.add("meddle", "nobody")
		return
	}
	args := []string{"CLIENT", "UNBLOCK", pick(w.rnd, waiting), pick(w.rnd, []string{"TIMEOUT", "ERROR"})}
	if w.one(4) {
		args = []string{"CLIENT", "KILL", "ID", args[2]}
	}
	reply, _, err := w.conn.do(time.Now().Add(replyPatience), args...)
	switch {
	case err != nil:
		w.tally.add("meddle", "no reply")
		w.drop()
	case reply == ":0", reply == ":1":
		w.tally.add("meddle", args[1]+" "+reply[1:])
	default:
		w.tally.errored("meddle", reply)
	}
}
