package lockcmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

// run is one command of a carrier, see Carrier.Do.
type run func(c *Carrier, ctx context.Context, dst []byte, args [][]byte) []byte

// commands are what Do runs, by name in capitals. Usage describes them.
var commands = map[string]run{
	acquireName:   (*Carrier).acquire,
	macquireName:  (*Carrier).macquire,
	mreleaseName:  (*Carrier).mrelease,
	releaseName:   (*Carrier).release,
	attachName:    (*Carrier).attach,
	extendName:    (*Carrier).extend,
	checkName:     (*Carrier).check,
	breakName:     (*Carrier).breakLock,
	ttlName:       (*Carrier).ttl,
	awaitLossName: (*Carrier).awaitLoss,
	notifyName:    (*Carrier).notify,
	infoName:      (*Carrier).info,

	takeName:       (*Carrier).take,
	giveName:       countCommand(parseGive, (*script.Client).Give),
	semAcquireName: (*Carrier).acquirePermits,
	semReleaseName: (*Carrier).releasePermits,
	initName:       countCommand(parseTotal(initName, maxPermits), (*script.Client).InitSemaphore),
	sizeName:       countCommand(parseTotal(sizeName, maxPermits), (*script.Client).ResizeSemaphore),
	semName:        (*Carrier).semaphoreInfo,
	setName:        countCommand(parseTotal(setName, maxCount), (*script.Client).SetLatch),
	downName:       countCommand(parseDown, countDown),
	getName:        (*Carrier).getLatch,
	awaitName:      (*Carrier).awaitLatch,
}

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
	if run, ok := commands[string(verb)]; ok {
		began := time.Now()
		if string(verb) == mreleaseName { // it still releases the other keys
			return c.explainTimeout(run(c, ctx, dst, args), len(dst), args, began)
		}
		if key, reason, ok := c.takeUnreportedLoss(verb, args[1:]); ok {
			return resp.AppendError(dst, string(acquire.Loss(key, reason)))
		}
		reply := run(c, ctx, dst, args)
		switch string(reply[len(dst):]) {
		case notHeldReply, refusedReply, goneReply:
			// A loss at this moment may be the reason.
			if key, reason, ok := c.takeUnreportedLoss(verb, args[1:]); ok {
				return resp.AppendError(dst, string(acquire.Loss(key, reason)))
			}
		}
		return c.explainTimeout(reply, len(dst), args, began)
	}
	return resp.AppendError(dst, refusal.Unsupported("command '"+cleanName(args[0])+"'"))
}

// explainTimeout adds Redis's reason to a LOCKTIMEOUT in the reply that begins at start, if Redis
// has refused requests since began.
func (c *Carrier) explainTimeout(reply []byte, start int, args [][]byte, began time.Time) []byte {
	if !bytes.HasPrefix(reply[start:], []byte("-LOCKTIMEOUT ")) || len(args) < 2 {
		return reply
	}
	keys := args[1:2]
	if n, ok := resp.ParseInt(args[1]); ok && isSeveral(args) {
		keys = args[2:min(2+n, int64(len(args)))]
	}
	reason := ""
	for _, key := range keys {
		if reason == "" {
			reason = c.service.Redis.RefusedSince(string(key), began)
		}
	}
	if reason == "" {
		return reply
	}
	reply = append(reply[:len(reply)-2], ": "...)
	return append(append(reply, reason...), '\r', '\n')
}

// isSeveral reports whether a command has the number of its keys before the keys.
func isSeveral(args [][]byte) bool {
	name := strings.ToUpper(string(args[0]))
	return len(args) > 2 && (name == macquireName || name == mreleaseName)
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
	if len(args) == 0 || !c.HasUnreportedLoss() {
		return "", "", false
	}
	if !bytes.HasPrefix(verb, []byte("LOCK.")) || string(verb) == notifyName {
		return "", "", false
	}
	keys, options := args[:1], args[1:]
	if bytes.HasPrefix(verb, []byte("LOCK.M")) {
		n, _ := resp.ParseInt(args[0])
		end := max(1, min(n+1, int64(len(args))))
		keys, options = args[1:end], args[end:]
	}
	owner := ownerNamed(options)
	for i, k := range keys {
		lock := c.id(string(k))
		if reason, ok = c.TakeUnreportedLoss(lock, tokenNamed(options, i, len(keys)), owner); ok {
			return lock.Key, reason, true
		}
	}
	return "", "", false
}

// tokenNamed is the token for one of the keys, by TOKEN or TOKENS; 0 for none.
func tokenNamed(options [][]byte, key, keys int) (token int64) {
	for i, arg := range options {
		at := i + 1
		if bytes.EqualFold(arg, []byte("TOKENS")) {
			at += key
		} else if keys > 1 || !bytes.EqualFold(arg, []byte("TOKEN")) {
			continue
		}
		if at < len(options) {
			token, _ = resp.ParseInt(options[at])
		}
	}
	return token
}

// ownerNamed is the OWNER in the options; "" for none.
func ownerNamed(options [][]byte) (owner string) {
	for i, arg := range options {
		if bytes.EqualFold(arg, []byte("OWNER")) && i+1 < len(options) {
			owner = string(options[i+1])
		}
	}
	return owner
}
