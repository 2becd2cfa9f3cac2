package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// errUnknown says that a request was sent and that nobody knows whether it was carried out.
var errUnknown = errors.New("lockcmd: outcome unknown")

// errRefused says that a request was certainly not carried out, and that Redis may take it later.
var errRefused = errors.New("lockcmd: Redis did not take the request")

// scriptCall is a script with everything a repetition needs: it may be sent as often as necessary and
// acts once (R7).
type scriptCall struct {
	script         *script
	db             int
	keys           []string
	minKeys        int // how many of the keys do in a slot that migrates (R14); 0 for all
	args           []string
	sent           time.Time // when it was last sent: the times in an answer count from there
	wantReplicas   int64     // how many replicas must have a grant; 0 without REPLICAS
	outcomeUnknown bool      // an attempt's outcome is unknown: a copy of it may still be on its way
	// it would act again if it were sent again: once its outcome is unknown, that is the answer
	runsOnce bool

	replicaTimeout time.Duration // how long a grant waits for its copies
	gotReplicas    int64         // how many replicas have it
}

// ask sends r until it is answered or the time is over. The error is errUnknown, errRefused, or
// Redis's own answer (a redis.Error). A slot in migration refuses a request of several keys for
// long: that is told at once (R14).
func (s *Service) ask(call *scriptCall, until time.Time) (any, error) {
	pause := 2 * time.Millisecond
	for {
		reply, err := s.attempt(call, until)
		if err == nil {
			s.noteSuccess(call)
			return reply, nil
		}
		v := judge(err)
		if v != answered {
			s.noteRefusal(call, err)
		}
		s.refreshTopologyAfter(v)
		switch v {
		case answered:
			return nil, s.nameMissingRight(call, err)
		case ambiguous:
			call.outcomeUnknown = true
			if call.runsOnce {
				return nil, errors.Join(errUnknown, err)
			}
		case refused:
			migrates := migrates(err)
			if migrates && call.minKeys > 0 && len(call.keys) > call.minKeys {
				call.keys = call.keys[:call.minKeys]
				continue
			}
			if migrates && len(call.keys) > 1 && !call.outcomeUnknown {
				return nil, errors.Join(errRefused, err)
			}
		}
		if s.stoppedWithin(pause) || time.Now().Add(pause).After(until) {
			if call.outcomeUnknown {
				return nil, errors.Join(errUnknown, err)
			}
			return nil, errors.Join(errRefused, err)
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}

// migrationPause is how long who asks for keys that a slot's migration keeps on two nodes waits for them
// to come together.
const migrationPause = 50 * time.Millisecond

// askThroughMigration asks for r, which cannot do with one key a call, again while its slot's migration keeps
// its keys apart (R14).
func (s *Service) askThroughMigration(call *scriptCall, until time.Time) (any, error) {
	for {
		reply, err := s.ask(call, until)
		if !keysSplit(err) || s.stoppedWithin(migrationPause) || time.Now().After(until) {
			return reply, err
		}
	}
}

// maxAttempt is how long one attempt may take. It is also for how long the end of the Service may
// have to wait for one.
const maxAttempt = 2 * time.Second

// attempt sends r once. It waits half of the upstream timeout at most, so that there is time for a
// second attempt.
func (s *Service) attempt(call *scriptCall, until time.Time) (any, error) {
	now := time.Now()
	limit := now.Add(min(s.cfg.UpstreamTimeout/2, maxAttempt))
	if until = s.capAtStop(until); until.Before(limit) {
		limit = until
	}
	if !now.Before(limit) {
		return nil, errRefused // and not sent
	}
	call.sent = now
	if s.cfg.SendScript != nil && !call.outcomeUnknown && call.wantReplicas == 0 {
		if reply, err, done := s.runDirect(limit, call); done {
			return reply, err
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	if call.wantReplicas > 0 {
		return s.runReplicated(ctx, call, limit)
	}
	return call.script.run(ctx, s.database(call.db), call.keys, call.args)
}

// refreshTopologyAfter looks for a new topology when a node does not serve as expected: for a command it may not
// send again go-redis does that only when its interval (60 s) is over, which is late for a lease.
func (s *Service) refreshTopologyAfter(v verdict) {
	if v == answered {
		return
	}
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		// in the background, and no more often than every 200 ms
		c.ReloadState(context.Background())
	}
	if s.cfg.RefreshTopology != nil {
		s.cfg.RefreshTopology()
	}
}

// stoppedWithin waits for d and reports whether the Service ended meanwhile.
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

// scriptArgs are the arguments of a script: text, and integers as text.
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

// decimal is an integer as scripts take it.
func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// millisText is a time in ms as scripts take it.
func millisText(d time.Duration) string { return decimal(d.Milliseconds()) }

// integersOf reads a script's reply as integers; what is no integer there reads as 0.
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

// textAt reads a script's reply as text at index i, "" where there is none.
func textAt(reply any, i int) string {
	items, _ := reply.([]any)
	if i >= len(items) {
		return ""
	}
	text, _ := items[i].(string)
	return text
}
