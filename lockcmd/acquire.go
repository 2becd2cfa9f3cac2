package lockcmd

import (
	"context"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

// acquire runs LOCK.ACQUIRE.
func (c *Carrier) acquire(ctx context.Context, dst []byte, args [][]byte) []byte {
	var opts acquire.Options
	key, o, msg := c.service.parse(args, acquireWords)
	if msg == "" {
		opts, msg = c.service.acquireOptionsOf("LOCK.ACQUIRE", o, key)
	}
	switch {
	case msg != "":
		return resp.AppendError(dst, msg)
	case c.grantsNothing():
		return resp.AppendError(dst, refusal.Draining)
	}
	opts.Lock = c.id(key)
	r := c.Acquire(ctx, opts)
	if r.Took() {
		return resp.AppendInt(dst, r.Token)
	}
	return c.replyTaken(dst, r, resp.NilBulk)
}

// attach runs LOCK.ATTACH: this connection becomes the carrier of a hold of any connection and any
// Leash.
func (c *Carrier) attach(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	key, o, msg := s.parse(args, attachWords)
	switch {
	case msg != "":
		return resp.AppendError(dst, msg)
	case o.Owner == "" || o.Token == 0:
		return resp.AppendError(dst, refusal.Syntax)
	case c.grantsNothing():
		return resp.AppendError(dst, refusal.Draining)
	}
	until := s.deadline()
	switch r := c.MoveHere(c.id(key), o.Selector, until); {
	case r.Took():
		return resp.AppendInt(dst, r.Token)
	case r.Kind == acquire.Absent:
		return c.replyAbsent(dst, key, o, until)
	case r.Kind == acquire.Unknown:
		return c.timeout(dst, refusal.AttachLater)
	default:
		return c.replyTaken(dst, r, "")
	}
}

// timeout answers with an error and counts it.
func (c *Carrier) timeout(dst []byte, msg string) []byte {
	c.service.recorder.Timeouts.Add(1)
	return resp.AppendError(dst, msg)
}

// replyTaken answers a result without a grant: its error, or that the lock is taken.
func (c *Carrier) replyTaken(dst []byte, r acquire.Result, taken string) []byte {
	switch {
	case r.Err == nil:
		c.service.recorder.Taken.Add(1)
		return append(dst, taken...)
	case r.Kind == acquire.Failed:
		return resp.AppendError(dst, failureText(r.Err))
	}
	return c.timeout(dst, failureText(r.Err))
}

// failureText is the error of an acquire as the client gets it.
func failureText(err error) string {
	if r, ok := err.(refusal.Error); ok {
		return string(r)
	}
	return transport.ErrorText(err)
}
