package proxy

import (
	"math"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// selectDB answers SELECT (https://redis.io/docs/latest/commands/select/). The session moves to the
// lane of that database if Redis accepts it for the user. Errors are Redis's own.
func (s *session) selectDB(c *command.Command, cmd resp.Command) bool {
	if !c.ArityOK(cmd.Args) {
		return s.router.WrongArity(c)
	}
	db, ok := resp.ParseInt(cmd.Args[1])
	switch {
	case !ok:
		return s.relaySelect("x")
	case db < math.MinInt32 || db > math.MaxInt32:
		return s.relaySelect("2147483648")
	case int(db) == s.router.Lane.DB:
		return s.router.RelayAny(cmd)
	case db < 0 && !s.server.up.Topology().Cluster():
		return s.router.RelayAny(cmd)
	}
	lane := s.router.Lane
	lane.DB = int(db)
	return s.enterDatabase(lane)
}

// relaySelect lets Redis answer a SELECT without a valid database. Redis does not get the client's
// own text, because older servers are less strict about numbers. They could change the database of
// all users of the link.
func (s *session) relaySelect(argument string) bool {
	p := call.NewPart(nil, call.AnySlot)
	p.Request = resp.AppendCommand(nil, "SELECT", argument)
	return s.router.RelayPart(p, selectBytes, merge.First)
}

// selectBytes is how many bytes a SELECT from relaySelect counts in the window.
const selectBytes = 32

// enterDatabase moves the session to a lane that differs in its database.
func (s *session) enterDatabase(lane dial.Lane) bool {
	if !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	s.server.up.Join(lane)
	reply, ok, err := s.server.up.Select(s.ctx, lane)
	switch {
	case err != nil:
		s.server.up.Leave(lane)
		s.server.log.Warn("cannot select a database", "db", lane.DB, "err", err)
		return s.fail(merge.NotSent)
	case !ok:
		s.server.up.Leave(lane)
		return s.answer(reply)
	case s.server.up.Topology().Cluster():
		// newer servers can have databases on a cluster; locks and scans do not support them
		s.server.up.Leave(lane)
		return s.fail(msgNoSelect)
	}
	s.changeLane(lane)
	return s.answer(reply)
}
