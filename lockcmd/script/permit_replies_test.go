package script_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/script"
)

// permits are two permits.
var permits = []string{strings.Repeat("0a", 16), strings.Repeat("0b", 16)}

// request asks for some permits in the name of a carrier.
func (s *stage) request(carrier string, token int64, some ...string) *script.PermitRequest {
	return &script.PermitRequest{
		Lock: s.lock, Grant: grant("", carrier, 1), Permits: some, FirstToken: token, Turn: "u/250", TurnEvent: "turn",
	}
}

// full reports whether leases last about 30 s.
func full(grants []script.PermitGrant) (tokens []int64, all bool) {
	all = true
	for _, g := range grants {
		tokens, all = append(tokens, g.Token), all && g.Left > 20*time.Second && g.Left <= 30*time.Second
	}
	return tokens, all
}

// take acquires permits.
func (s *stage) take(r *script.PermitRequest) string {
	got, unknown, err := s.AcquirePermits(r, s.until)
	tokens, all := full(got.Grants)
	if err != nil || unknown || !all {
		s.Errorf("got %+v, %t, %v", got, unknown, err)
	}
	switch got.Outcome {
	case script.AcquireGranted:
		return say("granted", tokens, got.Available)
	case script.AcquireElsewhere:
		return say("elsewhere", got.Permit == r.Permits[0], got.Token, got.Carrier)
	case script.AcquireInGrace:
		return say("in grace", len(got.Master))
	}
	return say("taken", got.Left.Round(10*time.Second))
}

// handOver gives the first permit back and grants a request.
func (s *stage) handOver(token int64, r *script.PermitRequest) string {
	hold := script.Ref{Lock: s.lock, Token: token, Carrier: "u:1"}
	got, unknown, err := s.HandOverPermit(permits[0], hold, r, s.until)
	tokens, all := full(got.Grants)
	if err != nil || unknown || !all {
		s.Errorf("got %+v, %t, %v", got, unknown, err)
	}
	return say(got.Answer, got.Granted, tokens, got.Others, got.Available)
}

// TestRepliesOfPermits: each function about permits returns each of its results on a real Redis.
func TestRepliesOfPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	tests := map[string]replyCase{
		"acquire without a semaphore": {func(s *stage) string { return s.take(s.request("u:1", 7, permits...)) },
			"taken 0s"},
		"acquire two and repeat it": {func(s *stage) string {
			s.do("SET", s.lock.Key, 3)
			return s.take(s.request("u:1", 7, permits...)) + ", " + s.take(s.request("u:1", 9, permits...))
		}, "granted [7 8] 1, granted [7 8] 1"},
		"acquire too many": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			return s.take(s.request("u:2", 9, permits[1]))
		}, "taken 30s"},
		"acquire another's permit": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			return s.take(s.request("u:2", 9, permits[0]))
		}, "elsewhere true 7 u:1"},
		"acquire a permit without a readable record": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			s.do("HSET", script.SemaphoreKeys(s.lock.Key)[2], permits[0], "?")
			return s.take(s.request("u:2", 9, permits[0]))
		}, "elsewhere true 0 "},
		"acquire in the turn of another Leash": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			waits := s.request("v:2", 8, permits[1])
			waits.Turn, waits.Waits = "v/10000", true
			s.take(waits)
			s.do("SET", s.lock.Key, 2)
			return s.take(s.request("u:1", 9, permits[1]))
		}, "taken 10s"},
		"acquire in grace": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			r := s.request("u:1", 7, permits[0])
			r.Grant.Master = "-"
			return s.take(r)
		}, "in grace 40"},
		"hand over and repeat it": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			next := s.request("u:2", 9, permits[1])
			return s.handOver(7, next) + ", " + s.handOver(7, next)
		}, "1 true [9] 0 0, 1 true [9] 0 0"},
		"hand over to a waiter that wants too many": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			return s.handOver(7, s.request("u:2", 9, permits[1], strings.Repeat("0c", 16)))
		}, "1 false [] 0 0"},
		"hand over what is not held": {func(s *stage) string {
			return s.handOver(7, s.request("u:2", 9, permits[1]))
		}, "-1 false [] 0 0"},
		"does Redis have a permit?": {func(s *stage) string {
			s.do("SET", s.lock.Key, 1)
			s.take(s.request("u:1", 7, permits[0]))
			one, err := s.HasPermit(s.Context(), s.lock, permits[0])
			two, _ := s.HasPermit(s.Context(), s.lock, permits[1])
			return say(one, two, err)
		}, "true false <nil>"},
	}
	play(t, server, tests)
}
