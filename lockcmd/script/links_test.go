package script

import (
	"cmp"
	"fmt"
	"time"

	"leash/proxy/slots"
)

// fakeLinks are Links to a Redis that gives one reply to everything.
type fakeLinks struct {
	reply    string
	alone    string // the reply to a command of Script, if it is another one
	scripts  int    // calls of Script
	command  string // of the last call of Script
	sent     bool
	err      error
	commands int      // of the last call of Scripts
	dropped  []string // "db slot"
}

func (l *fakeLinks) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, command, dst []byte) ([]byte, bool, error) {
	l.scripts++
	l.command = string(command)
	return append(dst, cmp.Or(l.alone, l.reply)...), l.sent, l.err
}

func (l *fakeLinks) Alone(_ time.Time, _ int, _ slots.Slot, _ int, _, dst []byte) ([]byte, bool, error) {
	return append(dst, l.reply...), l.sent, l.err
}

func (l *fakeLinks) Scripts(_ time.Time, _ int, _ slots.Slot, n int, _, dst []byte) ([]byte, bool, error) {
	l.commands = n
	return append(dst, l.reply...), l.sent, l.err
}

func (*fakeLinks) Owners() []int { return nil }

func (*fakeLinks) NodeAddr(slots.Slot) string { return "redis" }

func (*fakeLinks) Refresh() {}

func (l *fakeLinks) DropScriptConnections(db int, slot slots.Slot) {
	l.dropped = append(l.dropped, fmt.Sprint(db, " ", slot))
}
