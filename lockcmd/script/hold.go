package script

import (
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script/transport"
)

func (r Ref) tombstone() string { return TombstoneKey(r.Lock.Key, r.Token, r.Carrier) }

// Tombstone returns the text of a hold's tombstone, "" if there is none.
func (c *Client) Tombstone(r Ref, until time.Time) (text string, err error) {
	return c.Value(r.Lock.DB, r.tombstone(), until)
}

// Tombstones returns the texts of the tombstones of holds of one database, as Tombstone does. It
// asks for all at once. A key of another type is no tombstone. An error says that Redis did not
// answer.
func (c *Client) Tombstones(refs []Ref, until time.Time) (texts []string, errs []error) {
	if len(refs) == 0 {
		return nil, nil
	}
	cmds := make([]transport.Command, len(refs))
	for i, r := range refs {
		cmds[i] = transport.Command{Key: r.tombstone(), Words: []string{"GET", r.tombstone()}}
	}
	texts, errs = make([]string, len(refs)), make([]error, len(refs))
	for i, r := range c.DoAll(until, refs[0].Lock.DB, cmds) {
		if texts[i] = r.String(); r.Err != nil && transport.Judge(r.Err) != transport.Answered {
			errs[i] = r.Err
		}
	}
	return texts, errs
}

// TombstoneLeft returns how long a hold's tombstone still lasts. It is negative if there is none.
func (c *Client) TombstoneLeft(r Ref, until time.Time) (time.Duration, error) {
	return c.keyLeft(r.Lock.DB, r.tombstone(), until)
}

// OverwriteTombstone writes a hold's tombstone for so long, whatever is there.
func (c *Client) OverwriteTombstone(r Ref, text string, lasts time.Duration, until time.Time) error {
	return c.set(r.Lock.DB, r.tombstone(), text, lasts, until)
}

// keyLeft is how long a key still lasts. It is negative if there is none.
func (c *Client) keyLeft(db int, key string, until time.Time) (time.Duration, error) {
	reply, err := c.Do(until, db, transport.Command{Key: key, Words: []string{"PTTL", key}})
	left, _ := transport.Reply{Text: reply, Err: err}.Int()
	return Millis(left), err
}

// set writes a string that lasts so long.
func (c *Client) set(db int, key, value string, lasts time.Duration, until time.Time) error {
	words := []string{"SET", key, value, "PX", transport.MillisText(lasts)}
	_, err := c.Do(until, db, transport.Command{Key: key, Words: words})
	return err
}

// KeepAnswer keeps the answer to a request for so long, for its repetition.
func (c *Client) KeepAnswer(lock Lock, id string, code int64, lasts time.Duration, until time.Time) error {
	return c.set(lock.DB, AnswerKey(lock.Key, id), transport.Decimal(code), lasts, until)
}

// PublishEvent sends a message on a channel by the node of a lock. It may get lost.
func (c *Client) PublishEvent(lock Lock, channel, text string, until time.Time) error {
	_, err := c.Do(until, lock.DB, transport.Command{Key: lock.Key, Words: []string{"PUBLISH", channel, text}})
	return err
}

// WriteTombstone writes a hold's tombstone for so long. written is false if another tombstone says
// more. On the channel it tells waiters that it is there; "" for nobody.
func (c *Client) WriteTombstone(r Ref, text string, lasts time.Duration, channel string,
	until time.Time) (written bool, err error) {
	args := transport.Words(text, lasts.Milliseconds())
	if channel != "" {
		args = append(args, channel, c.Publish)
	}
	return c.askTombstone(r, args, until)
}

// askTombstone calls the script that writes a hold's tombstone.
func (c *Client) askTombstone(r Ref, args []string, until time.Time) (written bool, err error) {
	return c.AskDone(&transport.Call{
		Script: tombstoneScript, DB: r.Lock.DB, Keys: []string{r.tombstone()}, Args: args,
	}, until)
}

// MarkBroken tells the Leash of a hold by an event that LOCK.BREAK is about to end it. The mark is
// a tombstone that lasts so long. marked is false if a tombstone says already how the hold ended.
func (c *Client) MarkBroken(r Ref, lasts time.Duration, event string, until time.Time) (marked bool, err error) {
	args := transport.Words("broken", lasts.Milliseconds(), CarrierChannel(r.Carrier), "p", event)
	return c.askTombstone(r, args, until)
}

// ForceEnd ends a hold that MarkBroken has marked, without its Leash. The mark and the answer under
// the request's ID last so long. ended is false if there is no such hold.
func (c *Client) ForceEnd(lock Lock, h Hold, requestID string, lasts time.Duration, until time.Time) (ended bool,
	err error) {
	args := RevokeArgs{Mode: h.Mode, Owner: h.Owner, Hold: h.Ref(lock), All: true, AnswerID: requestID, Keep: lasts}
	call := args.call(c)
	call.Args = append(call.Args, "broken")
	call.OutlastsMigration, call.MinKeys = true, h.Mode.MinKeys()
	return c.AskDone(call, until)
}

// ForceEndOther ends a hold that has no record, as Redisson's forceUnlock does. The answer under
// the request's ID lasts so long. ended is false if the owner does not hold the lock.
func (c *Client) ForceEndOther(lock Lock, h Hold, requestID string, lasts time.Duration,
	until time.Time) (ended bool, err error) {
	return c.AskDone(&transport.Call{
		OutlastsMigration: true, Script: h.Mode.BreakOther, DB: lock.DB, MinKeys: h.Mode.MinKeys(),
		Keys: h.Mode.EndKeys(lock.Key, AnswerKey(lock.Key, requestID)),
		Args: transport.Words(h.Owner, h.Mode.Channel(lock.Key), c.Publish, lasts.Milliseconds()),
	}, until)
}

// ExtendArgs say which lease to extend and how.
type ExtendArgs struct {
	Lock      Lock
	Hold      Hold          // as it was read
	RequestID string        // nobody else has it
	Lasts     time.Duration // how long the lease lasts from now, in whole ms
	ToLease   bool          // the hold is renewed so far, and becomes a lease
	Event     string        // for the carrier's Leash; "" if this Leash is it
	Keep      time.Duration // how long the tombstone outlives the lease
}

// ExtendResult is what Extend did.
type ExtendResult struct {
	Left int64 // ms of the lease, from Sent on; negative if the record has changed since it was read
	Sent time.Time
}

// Extend sets how long a lease lasts. It acts once, however often it is sent.
func (c *Client) Extend(args ExtendArgs, until time.Time) (ExtendResult, error) {
	h, channel, ms := args.Hold, "", args.Lasts.Milliseconds()
	if args.Event != "" {
		channel = CarrierChannel(h.Record.Carrier)
	}
	call := &transport.Call{
		Script: h.Mode.Extend, DB: args.Lock.DB, MinKeys: h.Mode.MinKeys(), OutlastsMigration: true,
		Keys: h.Mode.Keys(args.Lock.Key, h.Ref(args.Lock).tombstone()),
		Args: transport.Words(h.Owner, h.Text, extendedRecord(h.Text, ms, args.RequestID, args.ToLease), ms, channel,
			args.Event, args.Keep.Milliseconds()),
	}
	left, err := c.AskInt(call, until)
	return ExtendResult{Left: left, Sent: call.Sent}, err
}

// extendedRecord is a record with another lease and the ID of the request that made it.
func extendedRecord(record string, ms int64, id string, toLease bool) string {
	f := strings.SplitN(record, " ", 11)
	f[6] = strconv.FormatInt(ms, 10)
	if toLease {
		f[7] = "l" + strings.TrimPrefix(f[7], "w")
	}
	more := []string{"extend=" + id}
	for pair := range strings.SplitSeq(f[8], ",") {
		if pair != "-" && !strings.HasPrefix(pair, "extend=") {
			more = append(more, pair)
		}
	}
	f[8] = strings.Join(more, ",")
	return strings.Join(f, " ")
}
