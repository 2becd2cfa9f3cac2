package script

import (
	"context"
	"strings"
	"time"
)

// RestoreArgs say which holds to write back on a new master in its grace period. The holds have one
// mode, and their keys one slot.
type RestoreArgs struct {
	DB       int
	Mode     *Mode
	Master   string // its replication id
	GraceEnd int64  // by the master's clock, ms since 1970
	TokenTTL time.Duration
	Holds    []RestoredHold
}

// RestoredHold is a hold as its Leash knows it.
type RestoredHold struct {
	Key, Owner, Carrier string
	Token               int64
	Request             int64 // number of the request among those of the carrier
	Count               int64
	Lasts               time.Duration // from now; at least 1 ms
	TTL                 time.Duration // of a renewal, or the lease
	Terms               Terms
	Moves               int64  // how often it was moved to another carrier
	LastID, Client      string // as the client gave them
}

// record is the record of the hold.
func (h *RestoredHold) record(m *Mode) string {
	since, ext := h.Token/1000, h.Terms.Ext() // a token is Redis's clock at the grant in µs, or a bit more
	if m == Permit {
		since = time.Now().UnixMilli()
	}
	if h.Moves > 0 {
		ext = strings.TrimPrefix(ext+",moves="+decimal(h.Moves), "-,")
	}
	return RecordPrefix(h.Token, h.Carrier) + strings.Join([]string{
		decimal(h.Request), decimal(h.Token), decimal(since), millisText(h.TTL), h.Terms.OptionLetters(), ext,
		RecordID(h.LastID), RecordClient(h.Client),
	}, " ")
}

// RestoreOutcome says what became of a hold.
type RestoreOutcome int

// The outcomes. With those after RestoreMoved, nothing was done.
const (
	RestoreHeldByOther  RestoreOutcome = iota // somebody else has the lock
	Restored                                  // it was written back
	RestoreAlreadyThere                       // it is there; an older state was corrected
	RestoreMoved                              // another carrier has it
	RestoreOtherMaster                        // another master serves the slot
	RestoreTombstone                          // the hold was ended or extended by another way
	RestoreGraceOver                          // by the master's clock, which may have been set forward
)

// restoreOutcomes are the outcomes by the reply about a hold, from -3 on.
var restoreOutcomes = [...]RestoreOutcome{
	RestoreGraceOver, RestoreTombstone, RestoreOtherMaster, RestoreHeldByOther, Restored, RestoreAlreadyThere,
}

// RestoreResult is what a restore did with one hold.
type RestoreResult struct {
	Outcome RestoreOutcome
	Record  Record // of the hold of another carrier
}

// Restore writes holds back. It blocks until Redis answers, or until the given time. It has a
// result for each hold. unknown tells that a copy may still be on its way, also without an error.
func (c *Client) Restore(args *RestoreArgs, until time.Time) (results []RestoreResult, unknown bool, err error) {
	call := args.call()
	reply, err := c.ask(call, until)
	results, err = c.restored(call, args, reply, err)
	return results, call.OutcomeUnknown, err
}

// RestoreOnce is Restore with one attempt, which ends with ctx.
func (c *Client) RestoreOnce(ctx context.Context, args *RestoreArgs) (results []RestoreResult, unknown bool,
	err error) {
	call := args.call()
	reply, err := call.Script.Run(ctx, c.Database(call.DB), call.Keys, call.Args)
	if err != nil {
		v := Judge(err)
		c.RefreshTopologyAfter(v)
		return nil, v == Ambiguous, err
	}
	results, err = c.restored(call, args, reply, nil)
	return results, call.OutcomeUnknown, err
}

// call makes the call.
func (args *RestoreArgs) call() *scriptCall {
	call := &scriptCall{
		Script: args.Mode.Restore, DB: args.DB,
		Args: words(args.Master, args.GraceEnd, args.TokenTTL.Milliseconds()),
	}
	for i := range args.Holds {
		h := &args.Holds[i]
		call.Keys = append(call.Keys, args.Mode.Keys(h.Key)...)
		if args.Mode != Permit {
			call.Keys = append(call.Keys, TokenKey(h.Key))
		}
		call.Keys = append(call.Keys, TombstoneKey(h.Key, h.Token, h.Carrier))
		call.Args = append(call.Args, h.Owner, decimal(h.Count), decimal(max(h.Lasts.Milliseconds(), 1)),
			h.record(args.Mode))
	}
	return call
}

// restored reads the reply.
func (c *Client) restored(call *scriptCall, args *RestoreArgs, reply any, err error) ([]RestoreResult, error) {
	if err != nil {
		return nil, err
	}
	results, ok := restoreResults(reply)
	if !ok || len(results) != len(args.Holds) {
		call.OutcomeUnknown = true
		return nil, c.badShape(call)
	}
	for _, r := range results {
		if r.Outcome == RestoreOtherMaster {
			c.RefreshTopologyAfter(Refused)
			break
		}
	}
	return results, nil
}

// restoreResults reads the reply. ok is false if the script has no such reply.
func restoreResults(reply any) (results []RestoreResult, ok bool) {
	n, ok := listOf(reply)
	if !ok {
		return nil, false
	}
	results = make([]RestoreResult, len(n))
	for i, code := range n {
		if r, moved := ParseRecord(textAt(reply, i)); moved {
			results[i] = RestoreResult{Outcome: RestoreMoved, Record: r}
			continue
		}
		if code += 3; code < 0 || code >= int64(len(restoreOutcomes)) {
			return nil, false
		}
		results[i].Outcome = restoreOutcomes[code]
	}
	return results, true
}
