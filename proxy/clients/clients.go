// Package clients is the CLIENT commands about the connected clients: which there are, what they
// have told about themselves, and how one ends or delays others.
//
// The package knows a client by the interface Client, and the one that runs a command by the
// interface Session.
package clients

import (
	"bytes"
	"fmt"
	"slices"

	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// BadName is Redis's error for a name that CLIENT SETNAME does not accept.
const BadName = "ERR Client names cannot contain spaces, newlines or special characters."

// Client is a connected client. Its methods do not block and are safe for concurrent use.
type Client interface {
	// Describe returns what CLIENT LIST shows of the client.
	Describe() *Description
	// Kill ends the connection. Its locks expire (rule R28), because the client may still be at
	// work. It returns false if the connection has ended already.
	Kill() bool
	// Unblock ends the lock command for which the client waits, with an error or as at a timeout.
	// It returns false if there is none.
	Unblock(withError bool) bool
	// Pins are the connections on which the client's blocking command runs.
	Pins() []*route.Pin
}

// Session is the client that runs a command. Only its own goroutine calls the methods that are not
// those of a Client.
type Session interface {
	Client
	// Clients returns all connected clients, the oldest first.
	Clients() []Client
	// Client returns the connected client of that ID, or nil.
	Client(id int64) Client
	// Labels is what the client has told about itself.
	Labels() Labels
	SetLabels(Labels)
	// SetNoEvict sets whether the client stays when all clients together leave too much unread.
	SetNoEvict(on bool)
	// EndKilled makes the session end like one that another client has killed.
	EndKilled()
}

// Labels are what a client has told about itself. They are empty if it has not.
type Labels struct {
	Name                string // CLIENT SETNAME
	LibName, LibVersion string // CLIENT SETINFO
}

// Caller is the client that runs a command, and what the command needs beside it.
type Caller struct {
	Session
	Router *route.Router
	Pauses *Pauses // of the server
}

// Run answers a command of this family. The user may run it. It returns false when the session
// ends.
type Run func(by Caller, cmd resp.Command) bool

// Commands are the subcommands of CLIENT in this package, by upper-case name.
func Commands() map[string]Run {
	return map[string]Run{
		"GETNAME":  getName,
		"ID":       func(by Caller, _ resp.Command) bool { return by.answerInt(by.Router.ID) },
		"INFO":     info,
		"KILL":     kill,
		"LIST":     list,
		"NO-EVICT": noEvict,
		"PAUSE":    setPause,
		"SETNAME":  setName,
		"UNBLOCK":  unblock,
		"UNPAUSE":  endPause,
	}
}

func (by Caller) answerInt(n int64) bool { return by.Router.Answer(resp.AppendInt(nil, n)) }

func noEvict(by Caller, cmd resp.Command) bool {
	if !by.Router.Permitted("CLIENT", "NO-EVICT", "?") {
		return true
	}
	on := resp.IsWord(cmd.Args[2], "ON")
	if !on && !resp.IsWord(cmd.Args[2], "OFF") {
		return by.Router.Fail(command.SyntaxError)
	}
	by.SetNoEvict(on)
	return by.Router.OK()
}

func setName(by Caller, cmd resp.Command) bool {
	if !Printable(cmd.Args[2]) {
		return by.Router.Fail(BadName)
	}
	Rename(by.Session, string(cmd.Args[2]))
	return by.Router.OK()
}

// Rename gives a session another name.
func Rename(s Session, name string) {
	labels := s.Labels()
	labels.Name = name
	s.SetLabels(labels)
}

func getName(by Caller, _ resp.Command) bool {
	name := by.Labels().Name
	switch {
	case name != "":
		return by.Router.Answer(resp.AppendBulk(nil, name))
	case by.Router.Lane.RESP3:
		return by.Router.Answer([]byte(resp.Null))
	}
	return by.Router.Answer([]byte(resp.NilBulk))
}

// SetInfo stores what a client library reports about itself
// (https://redis.io/docs/latest/commands/client-setinfo/). It works also with a Redis that lacks
// this command, so it makes Redis's checks itself.
func SetInfo(by Caller, c *command.Command, cmd resp.Command) bool {
	labels, field := by.Labels(), (*string)(nil)
	if len(cmd.Args) == 4 {
		switch {
		case resp.IsWord(cmd.Args[2], "LIB-NAME"):
			field = &labels.LibName
		case resp.IsWord(cmd.Args[2], "LIB-VER"):
			field = &labels.LibVersion
		}
	}
	switch {
	case len(cmd.Args) != 4:
		return by.Router.WrongArity(c)
	case !by.Router.Authenticated():
		return by.Router.Fail(command.NoAuth)
	case field == nil:
		return by.Router.Fail(fmt.Sprintf("ERR Unrecognized option '%s'", cmd.Args[2]))
	case !Printable(cmd.Args[3]):
		return by.Router.Fail("ERR " + string(bytes.ToLower(cmd.Args[2])) +
			" cannot contain spaces, newlines or special characters.")
	}
	*field = string(cmd.Args[3])
	by.SetLabels(labels)
	return by.Router.OK()
}

// Printable reports whether b has only the bytes '!' to '~'. Redis demands this of names.
func Printable(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < '!' || c > '~' })
}
