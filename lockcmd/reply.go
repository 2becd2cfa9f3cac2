package lockcmd

import (
	"errors"
	"fmt"
	"strings"

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
	msgDraining      = "ERR this Leash is shutting down and grants no locks"
	msgCount         = "ERR value is out of range, value must between 1 and 1000"
	msgPermit        = "ERR invalid permit: 32 hex digits"
	msgNoPermit      = "SEMNOTHELD there is no such permit"
	msgNotHeld       = "LOCKNOTHELD there is no such hold"
	msgElsewhere     = "LOCKELSEWHERE this owner's hold belongs to another connection, use LOCK.ATTACH to move it here"
	msgDeadlock      = "LOCKDEADLOCK this connection holds the key under another owner and would wait for itself"
	msgLimit         = "LOCKLIMIT too many commands wait on this Leash, see --max-waiters"
	msgNameLimit     = "LOCKLIMIT this Leash has as many holds as --limit-name-holds permits for '"
	msgKind          = "LOCKKIND this owner holds the key in another mode and would wait for itself"
	msgIsRenewed     = "ERR this hold is renewed automatically, only a hold with LEASE can be extended"
	msgNoPushes      = "ERR LOCK.NOTIFY needs RESP3: send HELLO 3 first, or use LOCK.AWAITLOSS"
	msgUnblocked     = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	msgTimeout       = "LOCKTIMEOUT Redis did not answer in time, Leash undoes the request if Redis executed it"
	msgUnknown       = "LOCKTIMEOUT Redis did not answer in time, the outcome is unknown"
	msgReleaseLater  = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the release until it does"
	msgAttachLater   = "LOCKTIMEOUT Redis did not answer in time, Leash repeats the attach until it does"
	msgExtendUnknown = "LOCKTIMEOUT Redis did not answer in time, the lease may be extended or not"
	msgBreakUnknown  = "LOCKTIMEOUT Redis did not answer in time, the lock may be broken or not"
	msgRefused       = "LOCKTIMEOUT Redis did not accept the request in time, nothing was done"
	msgShort         = "LOCKTIMEOUT the lease expired before the answer of Redis arrived"
	msgGone          = "LOCKTIMEOUT the connection has ended, Leash released the lock"
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

func msgLost(key, reason string) string {
	return "LOCKLOST " + transport.PrintableKey(key) + " " + reason
}

// msgNoReplicas is the error for a grant that too few replicas have and that was undone.
func msgNoReplicas(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash released it", have, want)
}

// msgNotUndone is msgNoReplicas while Redis has not answered the undo.
func msgNotUndone(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash is still releasing it", have,
		want)
}
