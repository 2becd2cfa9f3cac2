package login

import (
	"math"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

const msgNoSelect = "ERR SELECT is not allowed in cluster mode"

// Select answers SELECT (https://redis.io/docs/latest/commands/select/). The session moves to the
// lane of that database if Redis accepts it for the user. Errors are Redis's own.
func Select(c Caller, about *command.Command, cmd resp.Command) bool {
	if !about.ArityOK(cmd.Args) {
		return c.Router.WrongArity(about)
	}
	db, ok := resp.ParseInt(cmd.Args[1])
	switch {
	case !ok:
		return c.relaySelect("x")
	case db < math.MinInt32 || db > math.MaxInt32:
		return c.relaySelect("2147483648")
	case int(db) == c.Router.Lane.DB:
		return c.Router.RelayAny(cmd)
	case db < 0 && !c.Router.Up.Topology().Cluster():
		return c.Router.RelayAny(cmd)
	}
	lane := c.Router.Lane
	lane.DB = int(db)
	return c.enterDatabase(lane)
}

// relaySelect lets Redis answer a SELECT without a valid database. Redis does not get the client's
// own text, because older servers are less strict about numbers. They could change the database of
// all users of the link.
func (c Caller) relaySelect(argument string) bool {
	p := call.NewPart(resp.AppendCommand(nil, "SELECT", argument), slots.Any)
	return c.Router.RelayPart(p, selectBytes, merge.First)
}

// selectBytes is how many bytes a SELECT from relaySelect counts in the window.
const selectBytes = 32

// enterDatabase moves the session to a lane that differs in its database.
func (c Caller) enterDatabase(lane dial.Lane) bool {
	if !c.Router.Barrier() {
		return false
	}
	c.Router.Out.Flush()
	c.Router.Up.Nodes.Join(lane)
	reply, ok, err := c.Router.Up.Select(c.Router.Context, lane)
	switch {
	case err != nil:
		c.Router.Up.Nodes.Leave(lane)
		c.Router.Log.Warn("cannot select a database", "db", lane.DB, "err", err)
		return c.Router.Fail(merge.NotSent)
	case !ok:
		c.Router.Up.Nodes.Leave(lane)
		return c.Router.Answer(reply)
	case c.Router.Up.Topology().Cluster():
		// newer servers can have databases on a cluster; locks and scans do not support them
		c.Router.Up.Nodes.Leave(lane)
		return c.Router.Fail(msgNoSelect)
	}
	c.Session.ChangeLane(lane)
	return c.Router.Answer(reply)
}
