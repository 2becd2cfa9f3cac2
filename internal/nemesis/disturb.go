package main

import (
	"regexp"
	"time"
)

// idOf finds the id and the last command of each client in a reply to CLIENT LIST.
var idOf = regexp.MustCompile(`(?m)^id=(\d+) .* cmd=(\S+)`)

// waits finds the commands of clients that may be waiting.
var waits = regexp.MustCompile(`acquire|await|sem\.take`)

// disturbOther ends the wait or the connection of another client of the same Leash, as an operator
// may do.
func (w *worker) disturbOther() {
	list, _, err := w.conn.do(time.Now().Add(replyPatience), "CLIENT", "LIST")
	if err != nil {
		w.tally.Add("disturb", "no reply")
		w.drop()
		return
	}
	if list[0] == '-' {
		w.tally.Errored("disturb", list)
		return
	}
	var waiting [][]string // clients that seem to wait
	for _, m := range idOf.FindAllStringSubmatch(list, -1) {
		if waits.MatchString(m[2]) {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		w.tally.Add("disturb", "no client waits")
		return
	}
	m := pick(w.rnd, waiting)
	args := []string{"CLIENT", "UNBLOCK", m[1], "ERROR"}
	switch {
	case w.oneIn(4):
		args = []string{"CLIENT", "KILL", "ID", m[1]}
	case w.oneIn(2) && m[2] != "lock.awaitloss":
		// TIMEOUT would make LOCK.AWAITLOSS report the end of a hold that goes on.
		args[3] = "TIMEOUT"
	}
	reply, _, err := w.conn.do(time.Now().Add(replyPatience), args...)
	switch {
	case err != nil:
		w.tally.Add("disturb", "no reply")
		w.drop()
	case reply == ":0", reply == ":1":
		w.tally.Add("disturb", args[1]+" "+reply[1:])
	default:
		w.tally.Errored("disturb", reply)
	}
}
