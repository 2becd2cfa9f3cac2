package lockcmd

import (
	"errors"
	"strings"

	"leash/lockcmd/acquire"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

// replyError answers the error of a request to Redis. unknown is the answer if nobody knows what
// came of the request.
func (c *Carrier) replyError(dst []byte, err error, unknown string) []byte {
	switch {
	case errors.Is(err, script.ErrAbsent):
		return resp.AppendError(dst, msgNotHeld)
	case errors.Is(err, transport.ErrUnknown):
		return c.timeout(dst, unknown)
	case errors.Is(err, transport.ErrRefused):
		return c.timeout(dst, msgRefused)
	}
	return resp.AppendError(dst, transport.ErrorText(err))
}

// Error replies. Clients branch on the first word. Where Redis has the same error, the words are
// Redis's.
const (
	msgSyntax        = "ERR syntax error"
	msgNotInteger    = "ERR value is not an integer or out of range"
	msgReplicas      = "ERR value is out of range, must be positive"
	msgBlockNumber   = "ERR timeout is not an integer or out of range"
	msgBlockNegative = "ERR timeout is negative"
	msgBlockRange    = "ERR timeout is out of range"
	msgNegative      = "ERR value is out of range, must be positive"
	msgLeaseAndTTL   = "ERR LEASE and TTL options at the same time are not compatible"
	msgOwner         = "ERR invalid OWNER: 1 to 128 printable characters without space, not mode, not leash..., " +
		"not ending in :write"
	msgID            = "ERR invalid ID: 1 to 128 printable characters without space"
	msgHelper        = "ERR invalid key: Leash keeps the records of another lock in it"
	msgSlots         = "ERR invalid key: its helper keys would hash to another slot, check its { and }"
	msgDraining      = string(acquire.Draining)
	msgCount         = "ERR value is out of range, value must between 1 and 1000"
	msgPermit        = "ERR invalid permit: 32 hex digits"
	msgNoPermit      = "SEMNOTHELD there is no such permit"
	msgNotHeld       = string(acquire.NotHeld)
	msgLimit         = string(acquire.TooMany)
	msgIsRenewed     = "ERR this hold is renewed automatically, only a hold with LEASE can be extended"
	msgNoPushes      = "ERR LOCK.NOTIFY needs RESP3: send HELLO 3 first, or use LOCK.AWAITLOSS"
	msgUnblocked     = string(acquire.Unblocked)
	msgUnknown       = "LOCKTIMEOUT Redis did not answer in time, the outcome is unknown"
	msgReleaseLater  = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the release until it does"
	msgAttachLater   = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the attach until it does"
	msgExtendUnknown = "LOCKTIMEOUT Redis did not answer in time, the lease may be extended or not"
	msgBreakUnknown  = "LOCKTIMEOUT Redis did not answer in time, the lock may be broken or not"
	msgRefused       = string(acquire.NotAccepted)
	msgGone          = string(acquire.Gone)
)

// Whole replies.
const (
	notHeldReply = "-" + msgNotHeld + "\r\n"
	refusedReply = "-" + msgRefused + "\r\n"
	goneReply    = "-" + msgGone + "\r\n"
)

func msgArity(command string) string {
	return "ERR wrong number of arguments for '" + strings.ToLower(command) + "' command"
}

func msgExpire(command string) string {
	return "ERR invalid expire time in '" + strings.ToLower(command) + "' command"
}

func msgUnsupported(what string) string { return "ERR " + what + " is not supported by leash yet" }
