package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"leash/proxy/slots"
)

// Connection is the client connection that asks for a call. The call is not written after Ctx has
// ended, or after the connection's holds are over (R27). The zero value sets no limit.
type Connection struct {
	Ctx    context.Context
	Holder holder
}

type holder interface {
	CheckOverdue()
	SafeUntil() *time.Time // the time from which nothing may be written for it; nil for no limit
}

// Call is a script with all that a repetition needs. It may be sent several times and acts
// once (R7).
type Call struct {
	Script         *Script
	DB             int
	Keys           []string
	MinKeys        int // keys that are needed in a slot migration (R14); 0 for all
	Args           []string
	Sent           time.Time // time of the last attempt; times in a reply count from here
	WantReplicas   int64     // replicas that must have a grant; 0 without REPLICAS
	Touch          *Script   // writes the first key anew, for WAIT; only with WantReplicas
	OutcomeUnknown bool      // a copy may still be on its way
	// it acts each time it is sent, so it is not repeated when its outcome is unknown
	RunsOnce bool
	// it needs all its keys on one node, so it is repeated while a slot migration splits them (R14)
	OutlastsMigration bool
	For               Connection

	ReplicaTimeout time.Duration // how long a grant waits for replicas
	GotReplicas    int64         // replicas that have it
}

// Ask sends the call until Redis answers or the time is over. It returns what read makes of the
// reply; read returns false for a reply that the script cannot give. Then nobody knows whether it
// ran. The error is ErrUnknown, ErrRefused, or Redis's own (a resp.ReplyError). If a slot migration
// splits the keys of the call, Ask returns at once, because that lasts long (R14), unless the call
// says that it waits for the end.
func Ask[R any](c *Client, call *Call, until time.Time, read func(reply any) (R, bool)) (r R, err error) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		reply, err := c.attempt(call, until)
		if err == nil {
			if r, ok := read(reply); ok {
				c.noteSuccess(call)
				return r, nil
			}
			err = c.badShape(call)
		}
		if err = c.judge(call, err, until, pause); err != nil {
			return r, err
		}
	}
}

// judge returns the error of a call whose attempt has failed. It returns nil, after a pause, if the
// call may be sent again.
func (c *Client) judge(call *Call, err error, until time.Time, pause time.Duration) error {
	v := Judge(err)
	if v != Answered {
		c.NoteRefusal(call.Keys[0], err)
	}
	c.RefreshTopologyAfter(v)
	switch v {
	case Answered:
		return c.nameMissingRight(call, err)
	case Ambiguous:
		call.OutcomeUnknown = true
		if call.RunsOnce {
			return errors.Join(ErrUnknown, err)
		}
	case Refused:
		migrates := Migrates(err)
		if migrates && call.MinKeys > 0 && len(call.Keys) > call.MinKeys {
			call.Keys = call.Keys[:call.MinKeys]
			return nil
		}
		if migrates && len(call.Keys) > 1 && !call.OutcomeUnknown && !call.OutlastsMigration {
			return errors.Join(ErrRefused, err)
		}
	}
	pause = pause/2 + rand.N(pause)
	switch {
	case !call.cutOff() && !c.StoppedWithin(pause) && time.Now().Add(pause).Before(until):
		return nil
	case call.OutcomeUnknown:
		return errors.Join(ErrUnknown, err)
	}
	return errors.Join(ErrRefused, err)
}

// badShape is the error for a reply that the script of a call cannot give. It closes the
// connections to that node, because the replies after it may belong to other commands.
func (c *Client) badShape(call *Call) error {
	c.Links.DropScriptConnections(call.DB, slots.Of([]byte(call.Keys[0])))
	return errors.Join(ErrUnknown, ErrShape)
}

// AskInt calls a script that returns an integer.
func (c *Client) AskInt(call *Call, until time.Time) (int64, error) { return Ask(c, call, until, Int) }

// AskList calls a script that returns a list of one of these kinds, see Items.
func (c *Client) AskList(call *Call, until time.Time, kinds ...string) ([]int64, error) {
	return Ask(c, call, until, func(reply any) ([]int64, bool) {
		n, got := Items(reply)
		return n, slices.Contains(kinds, got)
	})
}

// AskDone calls a script that answers 1 if it has done what it was asked for.
func (c *Client) AskDone(call *Call, until time.Time) (done bool, err error) {
	n, err := c.AskInt(call, until)
	return n == 1, err
}

// AskUntilAnswered calls a script that returns an integer, again and again, with a pause after each
// time-out. It returns false if the client is stopped first.
func (c *Client) AskUntilAnswered(call *Call) (answered bool) {
	for {
		_, err := c.AskInt(call, time.Now().Add(c.Timeout))
		if !IsSilence(err) {
			return true
		}
		if c.StoppedWithin(time.Second) {
			return false
		}
	}
}

// attempt sends the call once. A call that runs once has all the time that there is.
func (c *Client) attempt(call *Call, until time.Time) (any, error) {
	now, limit := time.Now(), c.CapAtStop(until)
	if !call.RunsOnce {
		limit = c.attemptEnd(until)
	}
	safe := call.safeUntil()
	if call.cutOff() || !now.Before(limit) {
		return nil, ErrRefused // it was not sent
	}
	call.Sent = now
	reply, err := c.Run(limit, safe, call)
	if n, _ := Items(reply); call.WantReplicas > 0 && err == nil && len(n) > 0 && n[0] == 1 {
		c.waitForReplicas(call, limit)
	}
	return reply, err
}

// safeUntil is the time from which the call must not be written. It is nil if there is none.
func (call *Call) safeUntil() *time.Time {
	if call.For.Holder == nil {
		return nil
	}
	call.For.Holder.CheckOverdue()
	return call.For.Holder.SafeUntil()
}

// cutOff reports whether the call's connection is at its end, so that nothing may be written for
// it.
func (call *Call) cutOff() bool { return call.For.Ctx != nil && call.For.Ctx.Err() != nil }

// Words converts strings and integers to arguments of a script.
func Words(args ...any) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			list[i] = arg
		case int64:
			list[i] = Decimal(arg)
		case int:
			list[i] = Decimal(arg)
		default:
			panic(fmt.Sprintf("lockcmd: a script's argument is a %T", arg))
		}
	}
	return list
}

// Decimal is an integer as text.
func Decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// MillisText is a duration in ms as text.
func MillisText(d time.Duration) string { return Decimal(d.Milliseconds()) }
