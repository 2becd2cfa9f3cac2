package script_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/script"
)

// grant has the terms of a grant for an owner.
func grant(owner, carrier string, request int64) script.GrantTerms {
	return script.GrantTerms{
		Owner: owner, Carrier: carrier, Request: request, TTL: 30 * time.Second, Options: "w", Client: "c", Ext: "-",
	}
}

// acquire acquires the lock. change may set more arguments.
func (s *stage) acquire(m *script.Mode, g script.GrantTerms, change ...func(*script.AcquireArgs)) string {
	args := &script.AcquireArgs{Lock: s.lock, Mode: m, Grant: g, Turn: "u/250"}
	for _, f := range change {
		f(args)
	}
	r, _, err := s.Acquire(new(script.Acquisition), args, s.until)
	said := [...]string{
		script.AcquireTaken: "taken", script.AcquireGranted: "granted", script.AcquireElsewhere: "elsewhere",
		script.AcquireGone: "gone", script.AcquireStale: "stale", script.AcquireOtherMode: "other mode",
		script.AcquireInGrace: "in grace", script.AcquireAgain: "again",
	}[r.Outcome]
	if r.Token > 0 {
		said += ", token"
	}
	if r.Left > 20*time.Second && r.Left <= 30*time.Second {
		said += ", 30 s"
	}
	if r.Repeated {
		said += ", repeated"
	}
	if len(r.Master) == 40 {
		said += ", master"
	}
	if r.Carrier != "" {
		said += ", " + r.Carrier + " " + r.ID
	}
	if err != nil {
		said += ", " + err.Error()
	}
	return said
}

// end are the arguments that end a hold.
func (s *stage) end(m *script.Mode, h script.Hold, request int64, what string) script.EndArgs {
	return script.EndArgs{Mode: m, Owner: h.Owner, Hold: s.ref(h), Request: request, What: what}
}

// release releases a hold.
func (s *stage) release(m *script.Mode, h script.Hold, request int64, what string) string {
	args := &script.ReleaseArgs{End: s.end(m, h, request, what), Turn: "u/250", TurnEvent: "turn"}
	answer, err := s.Release(args, s.until)
	return say(answer, args.Unknown, err)
}

// handover hands the lock over to the owner "you".
func (s *stage) handover(m *script.Mode, h script.Hold, request int64, master string) string {
	g := grant("you", "u:2", 5)
	g.Master = master
	args := &script.HandoverArgs{End: s.end(m, h, request, ""), Grant: g, Mode: m, Turn: "u/250", TurnEvent: "turn"}
	r, unknown, err := s.Handover(args, s.until)
	left := r.Left > 20*time.Second && r.Left <= 30*time.Second
	return say(r.Answer, r.Granted, r.Token > h.Record.Token, left, r.Others, unknown, err)
}

// TestRepliesOfGrants: each function that acquires or ends a hold returns each of its results on a
// real Redis.
func TestRepliesOfGrants(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	tests := map[string]replyCase{
		"ask again, fair": {func(s *stage) string {
			list, timeouts := []any{"RPUSH", script.QueueKeys(s.lock.Key)[0]},
				[]any{"ZADD", script.QueueKeys(s.lock.Key)[1]}
			for i := range 1500 {
				list, timeouts = append(list, i), append(timeouts, 1, i)
			}
			s.do(list...)
			s.do(timeouts...)
			return s.acquire(script.Fair, grant("me", "u:1", 1)) + "; " + s.acquire(script.Fair, grant("me", "u:1", 1))
		}, "again; granted, token, 30 s"},
		"acquire as a waiter, fair": {func(s *stage) string {
			s.hold(script.Fair, "w")
			return s.acquire(script.Fair, grant("you", "u:2", 1), func(a *script.AcquireArgs) {
				a.Place, a.FairFor = script.PlaceLast, time.Minute
			})
		}, "taken, token, 30 s"},
		"hand over to a reader after a writer": {func(s *stage) string {
			h := s.hold(script.Write, "w")
			args := &script.HandoverArgs{End: s.end(script.Write, h, 2, ""), Grant: grant("you", "u:2", 5),
				Mode: script.Read}
			r, _, err := s.Handover(args, s.until)
			return say(r.Granted, err)
		}, "true <nil>"},
		"leave the turns": {func(s *stage) string {
			s.hold(script.Plain, "w")
			s.acquire(script.Plain, grant("you", "u:2", 1), func(a *script.AcquireArgs) { a.Place = script.PlaceLast })
			before := s.rdb.Exists(s.Context(), script.TurnsKey(s.lock.Key)).Val()
			s.LeaveTurns(s.lock, script.Plain, "u/250", "turn", s.until)
			return say(before, s.rdb.Exists(s.Context(), script.TurnsKey(s.lock.Key)).Val())
		}, "1 0"},
		"revoke a permit": {revokePermit, "{false true {{0 revoke-a-permit} 7 u:1} 30s} true false false <nil>"},
		"acquire WRITE over the own READ": {func(s *stage) string {
			s.hold(script.Read, "w")
			return s.acquire(script.Write, grant("me", "u:1", 2))
		}, "other mode"},
	}
	for _, m := range []*script.Mode{script.Plain, script.Fair, script.Read, script.Write} {
		maps.Copy(tests, grantCases(m))
	}
	play(t, server, tests)
}

// revokePermit revokes a permit with a wrong carrier, with the right one, and again.
func revokePermit(s *stage) string {
	keys := script.SemaphoreKeys(s.lock.Key)
	permit := strings.Repeat("0a", 16)
	s.do("SET", keys[0], 0)
	s.do("ZADD", keys[1], 1e15, strings.Repeat("\x0a", 16))
	s.do("HSET", keys[2], permit, "L1 7 u:1 1 7 1 30000 w - - c")
	args := &script.PermitRevokeArgs{Permit: permit, Hold: script.Ref{Lock: s.lock}, Keep: time.Minute, Event: "event"}
	one, _ := s.RevokePermit(args, s.until)
	args.Hold = one.Hold
	two, err := s.RevokePermit(args, s.until)
	args.Hold = script.Ref{Lock: s.lock}
	three, _ := s.RevokePermit(args, s.until)
	return say(one, two.Given, three.Given, three.Changed, err)
}

// grantCases are the cases for each mode.
func grantCases(m *script.Mode) map[string]replyCase {
	other := map[bool]string{true: "granted, token, 30 s", false: "taken, token, 30 s"}[m.Shared]
	withID := func(g script.GrantTerms) script.GrantTerms { g.ID = "id"; return g }
	token := func(n int64) func(*script.AcquireArgs) { return func(a *script.AcquireArgs) { a.Token = n } }
	cases := map[string]replyCase{
		"acquire": {func(s *stage) string { return s.acquire(m, grant("me", "u:1", 1)) }, "granted, token, 30 s"},
		"acquire another's": {func(s *stage) string {
			s.hold(m, "w")
			return s.acquire(m, grant("you", "u:2", 1))
		}, other},
		"acquire again": {func(s *stage) string {
			s.acquire(m, withID(grant("me", "u:1", 4)))
			h := s.inspected()
			return strings.Join([]string{
				s.acquire(m, withID(grant("me", "u:1", 4)), token(h.Record.Token)),
				s.acquire(m, withID(grant("me", "u:1", 5)), token(h.Record.Token)),
				s.acquire(m, grant("me", "u:1", 6), token(h.Record.Token)),
				s.acquire(m, grant("me", "u:1", 2), token(h.Record.Token)),
				s.acquire(m, grant("me", "u:2", 1)),
			}, "; ")
		}, "granted, token, 30 s; granted, token, 30 s, repeated; granted, token, 30 s; stale; elsewhere, token, u:1 -"},
		"acquire what is gone": {func(s *stage) string {
			return s.acquire(m, grant("me", "u:1", 1), token(7))
		}, "gone"},
		"acquire in grace": {func(s *stage) string {
			g := grant("me", "u:1", 1)
			g.Master = "-"
			return s.acquire(m, g)
		}, "in grace, master"},
		"release": {func(s *stage) string {
			h := s.hold(m, "w")
			s.acquire(m, grant("me", "u:1", 2), token(h.Record.Token))
			return strings.Join([]string{
				s.release(m, h, 1, ""), s.release(m, h, 3, ""), s.release(m, h, 3, ""), s.release(m, h, 4, "all"),
				s.release(m, h, 4, "all"),
			}, ", ")
		}, "-2 false <nil>, 0 false <nil>, 0 false <nil>, 1 false <nil>, -1 false <nil>"},
		"hand over": {func(s *stage) string {
			h := s.hold(m, "w")
			return s.handover(m, h, 2, "") + ", " + s.handover(m, h, 2, "")
		}, "1 true true true 0 false <nil>, 1 true true true 0 false <nil>"},
		"hand over in grace": {func(s *stage) string {
			h := s.hold(m, "w")
			return s.handover(m, h, 2, "-") + ", " + s.handover(m, h, 2, "-")
		}, "1 false false false 0 false <nil>, -1 false false false 0 false <nil>"},
		"hand over one count": {func(s *stage) string {
			h := s.hold(m, "w")
			s.acquire(m, grant("me", "u:1", 2), token(h.Record.Token))
			return s.handover(m, h, 3, "") + ", " + s.handover(m, h, 1, "")
		}, "0 false false false 0 false <nil>, -2 false false false 0 false <nil>"},
	}
	maps.Copy(cases, changeCases(m))
	if m.ReleaseKey != nil {
		cases["release each key"] = replyCase{func(s *stage) string {
			h := s.hold(m, "w")
			args := &script.ReleaseArgs{End: s.end(m, h, 2, ""), PerKeyCounts: 1}
			first, err := s.Release(args, s.until)
			again, _ := s.Release(args, s.until)
			args.Unknown = false
			later, _ := s.Release(args, s.until)
			return say(first, again, later, args.Unknown, err)
		}, "1 1 -1 false <nil>"}
	}
	named := make(map[string]replyCase, len(cases))
	for name, one := range cases {
		named[fmt.Sprintf("%s, %s", name, m.Name)] = one
	}
	return named
}

// changeCases are the cases of functions that change a hold which is there.
func changeCases(m *script.Mode) map[string]replyCase {
	move := func(s *stage, h script.Hold, to string) string {
		r, err := s.Move(&script.MoveArgs{
			Mode: m, Owner: h.Owner, From: s.ref(h), Carrier: to, Request: 3, Client: "c", Tombstone: "moved " + to,
			Keep: time.Minute, Event: "event",
		}, s.until)
		text, _ := s.Tombstone(s.ref(h), s.until)
		return say(r.Moved, r.Token == h.Record.Token, r.Left > 20*time.Second, r.Count, r.Record.Carrier, text, err)
	}
	revoke := func(s *stage, h script.Hold, all bool, id string) string {
		args := &script.RevokeArgs{
			Mode: m, Owner: h.Owner, Hold: s.ref(h), All: all, AnswerID: id, Keep: time.Minute, Ended: "ended",
			Decremented: "less",
		}
		answer, err := s.Revoke(args, s.until)
		return say(answer, args.Unknown, err)
	}
	return map[string]replyCase{
		"move": {func(s *stage) string {
			h := s.hold(m, "w")
			return move(s, h, "v:1") + ", " + move(s, h, "v:1") + ", " + move(s, h, "x:1")
		}, "true true true 1 v:1 moved v:1 <nil>, true true true 1 v:1 moved v:1 <nil>, false false false 0  moved v:1 <nil>"},
		"revoke": {func(s *stage) string {
			h := s.hold(m, "w")
			s.acquire(m, grant("me", "u:1", 2), func(a *script.AcquireArgs) { a.Token = h.Record.Token })
			return strings.Join([]string{
				revoke(s, h, false, "x:1"), revoke(s, h, false, "x:1"), revoke(s, h, true, "x:2"),
				revoke(s, h, true, "x:2"),
				revoke(s, h, true, "x:3"),
			}, ", ")
		}, "0 false <nil>, 0 false <nil>, 1 false <nil>, 1 false <nil>, -1 false <nil>"},
		"taken": {func(s *stage) string {
			asks := m
			if m == script.Read {
				asks = script.Write
			}
			h := s.hold(m, "w")
			args := &script.AcquireArgs{Lock: s.lock, Mode: asks, Grant: grant("you", "v:1", 1), Turn: "v/250"}
			ours, _, err := s.Acquire(new(script.Acquisition), args, s.until)
			s.do("DEL", s.lock.Key, script.RecordsKey(s.lock.Key))
			s.do("HSET", s.lock.Key, "java:1", 1) // a hold of Redisson
			javas, _, _ := s.Acquire(new(script.Acquisition), args, s.until)
			return say(ours.Outcome == script.AcquireTaken, ours.Token == h.Record.Token, err,
				javas.Outcome == ours.Outcome, javas.Token)
		}, "true true <nil> true 0"},
		"revoke in a migration": {func(s *stage) string {
			h := s.hold(m, "w")
			args := &script.RevokeArgs{Mode: m, Owner: h.Owner, Hold: s.ref(h), AnswerID: "x:1", Keep: time.Minute}
			answer, err := s.RevokeOwnKeys(args, s.until)
			again, _ := s.RevokeOwnKeys(args, s.until)
			return say(answer, again, args.Unknown, err)
		}, "1 -1 false <nil>"},
	}
}

// inspected is the only hold of the lock.
func (s *stage) inspected() script.Hold {
	s.Helper()
	info, err := s.Inspect(s.lock, s.until)
	if err != nil || len(info.Holds) != 1 {
		s.Fatalf("got %+v, %v, want one hold", info, err)
	}
	return info.Holds[0]
}
