// Package login is who a client is: HELLO, AUTH, SELECT, and the user whom its certificate names.
// Each of them moves the session to another lane, if Redis accepts that.
package login

import (
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Session is what a login changes in its session. Only the session's loop calls its methods.
type Session interface {
	// Admit counts the session at a user whom Redis has accepted. It returns the error if the user
	// has too many clients. Then nothing has changed.
	Admit(user string) (refusal string)
	// ChangeLane changes the session's lane to one that it has joined. No call is in flight.
	ChangeLane(lane dial.Lane)
	// SetName gives the client another name.
	SetName(name string)
}

// Caller is the client that logs in, and what that needs beside it.
type Caller struct {
	Session Session
	Router  *route.Router
}

// Auth answers AUTH [user] password. Redis checks the password on a connection of its own. If Redis
// accepts it, the session moves to the user's lane.
func Auth(c Caller, about *command.Command, cmd resp.Command) bool {
	switch len(cmd.Args) {
	case 2:
		return c.authenticate(cmd.Raw, c.Router.Lane.As("default"), cmd.Args[1], nil)
	case 3:
		return c.authenticate(cmd.Raw, c.Router.Lane.As(string(cmd.Args[1])), cmd.Args[2], nil)
	case 1:
		return c.Router.WrongArity(about)
	}
	return c.Router.Fail(command.SyntaxError)
}

// authenticate moves the session to a lane if Redis accepts the password of the lane's user. It
// answers with Redis's reply to the request. If Redis accepts and accepted is not nil, accepted
// answers instead.
func (c Caller) authenticate(request []byte, lane dial.Lane, password []byte, accepted func()) bool {
	if !c.Router.Barrier() {
		return false
	}
	if c.Router.RequireAuth && lane.User == "default" {
		// Redis accepts any password for a default user without one, except in this form
		request = resp.AppendCommand(nil, []byte("AUTH"), password)
	}
	c.Router.Up.Nodes.Join(lane)
	reply, ok, err := c.Router.Up.Authenticate(c.Router.Context, request, lane.User, password)
	if ok {
		if refusal := c.Session.Admit(lane.User); refusal != "" {
			c.Router.Up.Nodes.Leave(lane)
			return c.Router.Fail(refusal)
		}
		c.Session.ChangeLane(lane)
		if accepted != nil {
			accepted()
			return true
		}
		return c.Router.Answer(reply)
	}
	c.Router.Up.Nodes.Leave(lane)
	if err != nil {
		c.Router.Log.Warn("cannot check a password with redis", "err", err)
		return c.Router.Fail(merge.NotSent)
	}
	return c.Router.Answer(reply)
}

// AsUser moves the session to the lane of a user. Redis checks the password first, as for AUTH, and
// AsUser blocks until then. Otherwise nothing has changed, and it returns Redis's error, or why
// Redis could not be asked. It may be called only while no call is in flight.
func (c Caller) AsUser(user, password string) (refusal []byte, err error) {
	lane := c.Router.Lane.As(user)
	c.Router.Up.Nodes.Join(lane)
	request := resp.AppendCommand(nil, "AUTH", user, password)
	reply, ok, err := c.Router.Up.Authenticate(c.Router.Context, request, user, []byte(password))
	if ok {
		c.Session.ChangeLane(lane)
		return nil, nil
	}
	c.Router.Up.Nodes.Leave(lane)
	return reply, err
}
