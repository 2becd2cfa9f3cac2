package script

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
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
		ext = strings.TrimPrefix(ext+",moves="+transport.Decimal(h.Moves), "-,")
	}
	return RecordPrefix(h.Token, h.Carrier) + strings.Join([]string{
		transport.Decimal(h.Request), transport.Decimal(h.Token), transport.Decimal(since), transport.MillisText(h.TTL),
		h.Terms.OptionLetters(), ext, RecordID(h.LastID), recordClient(h.Client),
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
// result for each hold. A copy that comes late may write a hold back that was ended since.
func (c *Client) Restore(args *RestoreArgs, until time.Time) (results []RestoreResult, err error) {
	results, err = transport.Ask(c.Client, args.call(), until, args.results)
	isOther := func(r RestoreResult) bool { return r.Outcome == RestoreOtherMaster }
	if slices.ContainsFunc(results, isOther) {
		c.RefreshTopologyAfter(transport.Refused)
	}
	return results, err
}

// call makes the call.
func (args *RestoreArgs) call() *transport.Call {
	call := &transport.Call{
		Script: args.Mode.Restore, DB: args.DB,
		Args: transport.Words(args.Master, args.GraceEnd, args.TokenTTL.Milliseconds()),
	}
	for i := range args.Holds {
		h := &args.Holds[i]
		call.Keys = append(call.Keys, args.Mode.Keys(h.Key)...)
		if args.Mode != Permit {
			call.Keys = append(call.Keys, TokenKey(h.Key))
		}
		call.Keys = append(call.Keys, TombstoneKey(h.Key, h.Token, h.Carrier))
		call.Args = append(call.Args, h.Owner, transport.Decimal(h.Count),
			transport.Decimal(max(h.Lasts.Milliseconds(), 1)), h.record(args.Mode))
	}
	return call
}

// results reads the reply. ok is false if the script has no such reply.
func (args *RestoreArgs) results(reply any) (results []RestoreResult, ok bool) {
	n, _ := transport.Items(reply)
	if len(n) != len(args.Holds) {
		return nil, false
	}
	results = make([]RestoreResult, len(n))
	for i, code := range n {
		if r, moved := ParseRecord(transport.TextAt(reply, i)); moved {
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

// ErrNoMaster is the error for a node that is no master.
var ErrNoMaster = errors.New("lockcmd: not a master")

// ProbeArgs are what Leash knows of a node.
type ProbeArgs struct {
	Identity string        // "" for none
	Since    int64         // since when it has been master at the latest, ms since 1970
	Marks    []string      // keys of which the first that the node takes gets the mark
	Keep     time.Duration // how long the mark lives
}

// ProbeResult is what a master says of itself. Times are ms since 1970.
type ProbeResult struct {
	Identity   string
	ReplID     string // its replication ID
	Since, Now int64
}

// Probe asks the node of a slot which master it is and since when.
func (c *Client) Probe(ctx context.Context, slot slots.Slot, args ProbeArgs) (ProbeResult, error) {
	var reply any
	var err error
	words := transport.Words(args.Identity, args.Since, args.Keep.Milliseconds())
	for i := range len(args.Marks) + 1 {
		var mark []string // none in the last try
		if i < len(args.Marks) {
			mark = args.Marks[i : i+1]
		}
		reply, err = c.RunAlone(c.limit(ctx), slot, probeScript.Command(mark, words))
		if err == nil || transport.Judge(err) != transport.Refused {
			break
		}
	}
	n, kinds := transport.Items(reply)
	switch {
	case err != nil:
		return ProbeResult{}, err
	case kinds != "ssii":
		return ProbeResult{}, ErrNoMaster
	}
	return ProbeResult{
		Identity: transport.TextAt(reply, 0), ReplID: transport.TextAt(reply, 1), Since: n[2], Now: n[3],
	}, nil
}
