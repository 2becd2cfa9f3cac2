package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// scriptCall is a script with all that a repetition needs. It may be sent several times and acts
// once (R7).
type scriptCall struct {
	script         *script.Script
	db             int
	keys           []string
	minKeys        int // keys that are needed in a slot migration (R14); 0 for all
	args           []string
	sent           time.Time // time of the last attempt; times in a reply count from here
	wantReplicas   int64     // replicas that must have a grant; 0 without REPLICAS
	outcomeUnknown bool      // a copy may still be on its way
	// it acts each time it is sent, so it is not repeated when its outcome is unknown
	runsOnce bool
	// Set if the call must not be written when the connection's holds are over (R27): its context,
	// which ends with the connection, and its carrier.
	ctx     context.Context
	carrier *Carrier

	replicaTimeout time.Duration // how long a grant waits for replicas
	gotReplicas    int64         // replicas that have it
}

// ask sends the call until Redis answers or the time is over. The error is script.ErrUnknown,
// script.ErrRefused, or Redis's own (a redis.Error). If a slot migration splits its keys, ask
// returns at once, because that lasts long (R14).
func (s *Service) ask(call *scriptCall, until time.Time) (any, error) {
	pause := 2 * time.Millisecond
	for {
		reply, err := s.attempt(call, until)
		if err == nil {
			s.noteSuccess(call)
			return reply, nil
		}
		v := script.Judge(err)
		if v != script.Answered {
			s.noteRefusal(call, err)
		}
		s.refreshTopologyAfter(v)
		switch v {
		case script.Answered:
			return nil, s.nameMissingRight(call, err)
		case script.Ambiguous:
			call.outcomeUnknown = true
			if call.runsOnce {
				return nil, errors.Join(script.ErrUnknown, err)
			}
		case script.Refused:
			migrates := script.Migrates(err)
			if migrates && call.minKeys > 0 && len(call.keys) > call.minKeys {
				call.keys = call.keys[:call.minKeys]
				continue
			}
			if migrates && len(call.keys) > 1 && !call.outcomeUnknown {
				return nil, errors.Join(script.ErrRefused, err)
			}
		}
		if call.cutOff() || s.stoppedWithin(pause) || time.Now().Add(pause).After(until) {
			if call.outcomeUnknown {
				return nil, errors.Join(script.ErrUnknown, err)
			}
			return nil, errors.Join(script.ErrRefused, err)
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}

// migrationPause is the pause between two attempts while a slot migration splits the keys.
const migrationPause = 50 * time.Millisecond

// askThroughMigration is ask for a script that needs all its keys on one node. It repeats the call
// while a slot migration splits them (R14).
func (s *Service) askThroughMigration(call *scriptCall, until time.Time) (any, error) {
	for {
		reply, err := s.ask(call, until)
		if !script.KeysSplit(err) || s.stoppedWithin(migrationPause) || time.Now().After(until) {
			return reply, err
		}
	}
}

// maxAttempt is the longest time for one attempt. The end of the Service may have to wait that
// long.
const maxAttempt = 2 * time.Second

// attempt sends the call once. It waits at most half of the upstream timeout, so that a second
// attempt is possible.
func (s *Service) attempt(call *scriptCall, until time.Time) (any, error) {
	now := time.Now()
	limit := now.Add(min(s.cfg.UpstreamTimeout/2, maxAttempt))
	if until = s.capAtStop(until); until.Before(limit) {
		limit = until
	}
	safe := call.safeUntil()
	if call.cutOff() || !now.Before(limit) {
		return nil, script.ErrRefused // it was not sent
	}
	call.sent = now
	if s.cfg.SendScript != nil && !call.outcomeUnknown && call.wantReplicas == 0 {
		if reply, err, done := s.runDirect(limit, safe, call); done {
			return reply, err
		}
	}
	if safe != nil && safe.Before(limit) {
		if limit = *safe; !time.Now().Before(limit) {
			return nil, script.ErrRefused
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	if call.wantReplicas > 0 {
		return s.runReplicated(ctx, call, limit)
	}
	return call.script.Run(ctx, s.database(call.db), call.keys, call.args)
}

// safeUntil is the time from which the call must not be written. It is nil if there is none.
func (call *scriptCall) safeUntil() *time.Time {
	if call.carrier == nil {
		return nil
	}
	call.carrier.CheckOverdue()
	return call.carrier.SafeUntil()
}

// cutOff reports whether the call's connection is at its end, so that nothing may be written for
// it.
func (call *scriptCall) cutOff() bool { return call.ctx != nil && call.ctx.Err() != nil }

// refreshTopologyAfter starts a refresh of the topology after a node did not serve as expected. For
// commands that it may not repeat, go-redis refreshes only every 60 s, which is late for a lease.
func (s *Service) refreshTopologyAfter(v script.Verdict) {
	if v == script.Answered {
		return
	}
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		// It runs in the background, at most every 200 ms.
		c.ReloadState(context.Background())
	}
	if s.cfg.RefreshTopology != nil {
		s.cfg.RefreshTopology()
	}
}

// stoppedWithin waits for d. It returns true when the Service ends first.
func (s *Service) stoppedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return true
	case <-timer.C:
		return false
	}
}

// scriptArgs converts strings and integers to arguments of a script.
func scriptArgs(args ...any) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			list[i] = arg
		case int64:
			list[i] = decimal(arg)
		case int:
			list[i] = decimal(arg)
		default:
			panic(fmt.Sprintf("lockcmd: a script's argument is a %T", arg))
		}
	}
	return list
}

// decimal is an integer as text.
func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// millisText is a duration in ms as text.
func millisText(d time.Duration) string { return decimal(d.Milliseconds()) }

// integersOf reads a script's reply as integers. Other items read as 0.
func integersOf(reply any) []int64 {
	if list, ok := reply.([]int64); ok {
		return list
	}
	items, ok := reply.([]any)
	if !ok {
		n, _ := reply.(int64)
		return []int64{n}
	}
	out := make([]int64, len(items))
	for i, item := range items {
		out[i], _ = item.(int64)
	}
	return out
}

// textAt is the text at index i of a script's reply, "" if there is none.
func textAt(reply any, i int) string {
	items, _ := reply.([]any)
	if i >= len(items) {
		return ""
	}
	text, _ := items[i].(string)
	return text
}
