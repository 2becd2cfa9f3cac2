package lockcmd

import (
	"bytes"
	"context"
	"errors"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

// run is one command of a carrier, see Carrier.Do.
type run func(c *Carrier, ctx context.Context, dst []byte, args [][]byte) []byte

// Do runs one command of LOCK.*, SEM.* or LATCH.* and appends its whole reply, in RESP2, to dst.
// args[0] is the name, in any case. args are not kept. Only one Do may run at a time.
//
// Do blocks as long as the command does. ctx ends when the client is gone (looked at only after
// Host.Watch) or when the session is being closed. Then a waiter leaves, and a grant that cannot be
// reported any more is released.
//
// A loss under ONLOSS ERROR is the answer to the next LOCK command for its key, unless that command
// names another hold.
func (c *Carrier) Do(ctx context.Context, dst []byte, args [][]byte) []byte {
	if len(args) == 0 {
		return resp.AppendError(dst, "ERR unknown command")
	}
	var name [32]byte
	verb := name[:copy(name[:], args[0])]
	for i, b := range verb {
		if 'a' <= b && b <= 'z' {
			verb[i] = b - 'a' + 'A'
		}
	}
	c.Reset()
	c.BeginAnswer()
	command := commands[string(verb)]
	switch {
	case command == nil:
		return resp.AppendError(dst, refusal.Unsupported("command '"+cleanName(args[0])+"'"))
	case !command.ArityOK(args):
		return resp.AppendError(dst, refusal.Arity(command.Name))
	}
	began := time.Now()
	if command.Name == "lock.mrelease" { // it still releases the other keys
		return c.explainTimeout(command.run(c, ctx, dst, args), len(dst), verb, args, began)
	}
	if key, reason, ok := c.takeUnreportedLoss(verb, args); ok {
		return resp.AppendError(dst, string(acquire.Loss(key, reason)))
	}
	reply := command.run(c, ctx, dst, args)
	switch string(reply[len(dst):]) {
	case notHeldReply, refusedReply, goneReply:
		// A loss at this moment may be the reason.
		if key, reason, ok := c.takeUnreportedLoss(verb, args); ok {
			return resp.AppendError(dst, string(acquire.Loss(key, reason)))
		}
	}
	return c.explainTimeout(reply, len(dst), verb, args, began)
}

// keysOf splits the arguments of a command into its keys and its options.
func keysOf(verb []byte, args [][]byte) (keys, options [][]byte) {
	if !bytes.HasPrefix(verb, []byte("LOCK.M")) {
		return args[1:2], args[2:]
	}
	n, _ := resp.ParseInt(args[1])
	end := max(2, min(2+n, int64(len(args))))
	return args[2:end], args[end:]
}

// explainTimeout adds Redis's reason to a LOCKTIMEOUT in the reply that begins at start, if Redis
// has refused requests since began.
func (c *Carrier) explainTimeout(reply []byte, start int, verb []byte, args [][]byte, began time.Time) []byte {
	if !bytes.HasPrefix(reply[start:], []byte("-LOCKTIMEOUT ")) {
		return reply
	}
	keys, _ := keysOf(verb, args)
	for _, key := range keys {
		if reason := c.service.Redis.RefusedSince(string(key), began); reason != "" {
			reply = append(reply[:len(reply)-2], ": "...)
			return append(append(reply, reason...), '\r', '\n')
		}
	}
	return reply
}

// cleanName is a command's name in a form that is safe in an error.
func cleanName(name []byte) string {
	name = name[:min(len(name), 128)]
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, name))
}

// replyError answers the error of a request to Redis. unknown is the answer if nobody knows what
// came of the request.
func (c *Carrier) replyError(dst []byte, err error, unknown string) []byte {
	switch {
	case errors.Is(err, script.ErrAbsent):
		return resp.AppendError(dst, refusal.NotHeld)
	case errors.Is(err, transport.ErrUnknown):
		return c.timeout(dst, unknown)
	case errors.Is(err, transport.ErrRefused):
		return c.timeout(dst, refusal.NotAccepted)
	}
	return resp.AppendError(dst, transport.ErrorText(err))
}

// Whole replies.
const (
	notHeldReply = "-" + refusal.NotHeld + "\r\n"
	refusedReply = "-" + refusal.NotAccepted + "\r\n"
	goneReply    = "-" + refusal.Gone + "\r\n"
	laterReply   = "-" + refusal.ReleaseLater + "\r\n"
)

// replyAbsent answers when Redis has no such hold. It was lost if this connection had it.
func (c *Carrier) replyAbsent(dst []byte, key string, o options, until time.Time) []byte {
	h := c.ownHold(key, o)
	if h == nil {
		return resp.AppendError(dst, refusal.NotHeld)
	}
	if !h.LockRequests(until) {
		return c.timeout(dst, refusal.NotAccepted)
	}
	defer h.UnlockRequests()
	switch lost, err := c.service.Releaser.SettleMissing(h, until); {
	case err != nil:
		return c.timeout(dst, refusal.NotAccepted)
	case lost != "":
		return resp.AppendError(dst, string(c.ReportLoss(h, lost)))
	}
	return resp.AppendError(dst, refusal.NotHeld)
}

// takeUnreportedLoss returns and removes an unreported loss of one of the command's keys, to be the
// reply. If the TOKEN or OWNER of the command names another hold, the command runs instead.
// Otherwise the reply would be taken for the end of that hold.
func (c *Carrier) takeUnreportedLoss(verb []byte, args [][]byte) (key, reason string, ok bool) {
	if !c.HasUnreportedLoss() || !bytes.HasPrefix(verb, []byte("LOCK.")) || string(verb) == "LOCK.NOTIFY" {
		return "", "", false
	}
	keys, options := keysOf(verb, args)
	owner := string(optionValue(options, "OWNER", 0))
	for i, k := range keys {
		value := optionValue(options, "TOKENS", i)
		if value == nil && len(keys) == 1 {
			value = optionValue(options, "TOKEN", 0)
		}
		token, _ := resp.ParseInt(value)
		if reason, ok = c.TakeUnreportedLoss(c.id(string(k)), token, owner); ok {
			return string(k), reason, true
		}
	}
	return "", "", false
}

// optionValue is the value at index i after the name of an option; nil if there is none.
func optionValue(options [][]byte, name string, i int) (value []byte) {
	for at, arg := range options {
		if at += 1 + i; at < len(options) && bytes.EqualFold(arg, []byte(name)) {
			value = options[at]
		}
	}
	return value
}
