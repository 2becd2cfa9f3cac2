package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// holder is the connection for which a call is made.
type holder interface {
	CheckOverdue()
	SafeUntil() *time.Time // the time from which nothing may be written for it; nil for no limit
}

// scriptCall is a script with all that a repetition needs. It may be sent several times and acts
// once (R7).
type scriptCall struct {
	Script         *Script
	DB             int
	Keys           []string
	MinKeys        int // keys that are needed in a slot migration (R14); 0 for all
	Args           []string
	Sent           time.Time // time of the last attempt; times in a reply count from here
	WantReplicas   int64     // replicas that must have a grant; 0 without REPLICAS
	OutcomeUnknown bool      // a copy may still be on its way
	// it acts each time it is sent, so it is not repeated when its outcome is unknown
	RunsOnce bool
	// it needs all its keys on one node, so it is repeated while a slot migration splits them (R14)
	OutlastsMigration bool
	// Set if the call must not be written when the connection's holds are over (R27): its context,
	// which ends with the connection, and its carrier.
	Ctx    context.Context
	Holder holder

	ReplicaTimeout time.Duration // how long a grant waits for replicas
	GotReplicas    int64         // replicas that have it
}

// ask sends the call until Redis answers or the time is over. The error is ErrUnknown,
// ErrRefused, or Redis's own (a redis.Error). If a slot migration splits its keys, ask returns at
// once, because that lasts long (R14), unless the call says that it waits for the end.
func (c *Client) ask(call *scriptCall, until time.Time) (any, error) {
	pause := 2 * time.Millisecond
	for {
		reply, err := c.attempt(call, until)
		if err == nil {
			if call.WantReplicas == 0 {
				c.roundTrip.note(time.Since(call.Sent))
			}
			c.noteSuccess(call)
			return reply, nil
		}
		v := Judge(err)
		if v != Answered {
			c.noteRefusal(call, err)
		}
		c.RefreshTopologyAfter(v)
		switch v {
		case Answered:
			return nil, c.nameMissingRight(call, err)
		case Ambiguous:
			call.OutcomeUnknown = true
			if call.RunsOnce {
				return nil, errors.Join(ErrUnknown, err)
			}
		case Refused:
			migrates := Migrates(err)
			if migrates && call.MinKeys > 0 && len(call.Keys) > call.MinKeys {
				call.Keys = call.Keys[:call.MinKeys]
				continue
			}
			if migrates && len(call.Keys) > 1 && !call.OutcomeUnknown && !call.OutlastsMigration {
				return nil, errors.Join(ErrRefused, err)
			}
		}
		if call.cutOff() || c.StoppedWithin(pause) || time.Now().Add(pause).After(until) {
			if call.OutcomeUnknown {
				return nil, errors.Join(ErrUnknown, err)
			}
			return nil, errors.Join(ErrRefused, err)
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}

// answer is ask for a script whose replies read understands. Any other reply leaves the outcome
// unknown.
func answer[R any](c *Client, call *scriptCall, until time.Time, read func(reply any) (R, bool)) (r R, err error) {
	reply, err := c.ask(call, until)
	if err != nil {
		return r, err
	}
	r, ok := read(reply)
	if !ok {
		call.OutcomeUnknown = true
		err = c.badShape(call)
	}
	return r, err
}

// askInt calls a script that returns an integer.
func (c *Client) askInt(call *scriptCall, until time.Time) (int64, error) {
	reply, err := c.ask(call, until)
	return integersOf(reply)[0], err
}

// askDone calls a script that answers 1 if it has done what it was asked for.
func (c *Client) askDone(call *scriptCall, until time.Time) (done bool, err error) {
	n, err := c.askInt(call, until)
	return n == 1, err
}

// MaxAttempt is the longest time for one attempt. The end of the Service may have to wait that
// long.
const MaxAttempt = 2 * time.Second

// attempt sends the call once. It waits at most half of the upstream timeout, so that a second
// attempt is possible.
func (c *Client) attempt(call *scriptCall, until time.Time) (any, error) {
	now := time.Now()
	limit := now.Add(min(c.Timeout/2, MaxAttempt))
	if until = c.CapAtStop(until); until.Before(limit) {
		limit = until
	}
	safe := call.safeUntil()
	if call.cutOff() || !now.Before(limit) {
		return nil, ErrRefused // it was not sent
	}
	call.Sent = now
	if c.Links != nil && !call.OutcomeUnknown && call.WantReplicas == 0 {
		if reply, err, done := c.runDirect(limit, safe, call); done {
			return reply, err
		}
	}
	if safe != nil && safe.Before(limit) {
		if limit = *safe; !time.Now().Before(limit) {
			return nil, ErrRefused
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	if call.WantReplicas > 0 {
		return c.runReplicated(ctx, call, limit)
	}
	return call.Script.Run(ctx, c.Database(call.DB), call.Keys, call.Args)
}

// safeUntil is the time from which the call must not be written. It is nil if there is none.
func (call *scriptCall) safeUntil() *time.Time {
	if call.Holder == nil {
		return nil
	}
	call.Holder.CheckOverdue()
	return call.Holder.SafeUntil()
}

// cutOff reports whether the call's connection is at its end, so that nothing may be written for
// it.
func (call *scriptCall) cutOff() bool { return call.Ctx != nil && call.Ctx.Err() != nil }

// words converts strings and integers to arguments of a script.
func words(args ...any) []string {
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

// badShape is the error for a reply that the script of a call cannot give. It closes the
// connection, as runDirect does.
func (c *Client) badShape(call *scriptCall) error {
	if c.Links != nil {
		c.Links.DropScriptConnections(call.DB, SlotOf(call.Keys[0]))
	}
	return errors.Join(ErrUnknown, ErrShape)
}

// listOf is a reply that is a list with an item or more, as integers. ok is false for any other
// reply.
func listOf(reply any) (list []int64, ok bool) {
	switch reply.(type) {
	case []int64, []any:
		list = integersOf(reply)
	}
	return list, len(list) > 0
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
