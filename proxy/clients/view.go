package clients

import (
	"strings"
	"time"
)

// View is a client as operators see it.
type View struct {
	ID               int64
	Addr, Name, User string // Name is that of CLIENT SETNAME; empty for none
	Library          string // name and version; empty for none
	Command          string // the last one; NULL for none
	Flags            string // as in CLIENT LIST
	DB               int
	Age, Idle        time.Duration
	Holds            int // locks and permits that its connection carries
	Input, Output    int // bytes of commands in flight and of output that waits
}

// ViewOf makes a View of a description, without the holds.
func ViewOf(d *Description) View {
	return View{
		ID: d.ID, Addr: d.Addr, Name: d.Name, User: d.User, Library: strings.TrimSpace(d.LibName + " " + d.LibVersion),
		Command: d.Command, Flags: d.Flags(), DB: d.DB, Age: d.Age, Idle: d.Idle, Input: d.Requests, Output: d.Output,
	}
}

// Contains reports whether the address, the name, the user, the library or the command contains a
// text.
func (v *View) Contains(text string) bool {
	for _, field := range [...]string{v.Addr, v.Name, v.User, v.Library, v.Command} {
		if strings.Contains(field, text) {
			return true
		}
	}
	return false
}
