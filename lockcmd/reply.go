package lockcmd

import (
	"errors"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

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
)
