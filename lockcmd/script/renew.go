package script

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// RenewBatch is holds of one slot and mode that one call renews, or checks.
type RenewBatch struct {
	DB    int
	Slot  slots.Slot
	Mode  *Mode
	Lasts time.Duration // how long the holds last then at least, in whole ms; 0 to check only
	Holds RenewedHolds
}

// RenewedHolds are the holds of a batch. Nothing is copied or allocated for a single hold, because
// a Leash may renew 100,000 holds a second.
type RenewedHolds interface {
	Len() int
	Hold(i int) RenewedHold
	AppendOwner(i int, dst []byte) []byte
}

// RenewedHold names a hold. It is no Ref, because Go copies so large a struct through memory.
type RenewedHold struct {
	Key     string
	Token   int64
	Carrier string
}

// RenewReply is what Redis says of one hold.
type RenewReply int64

// The replies below 2. A larger one is 1 and the ms that are left.
const (
	renewUnknown RenewReply = iota - 1 // Redis could not say
	renewGone
	renewDone
)

// Held reports whether the hold is there. It was renewed, or only checked.
func (r RenewReply) Held() bool { return r >= renewDone }

// Gone reports whether the hold is not there any more.
func (r RenewReply) Gone() bool { return r == renewGone }

// Left is how long a hold lasts that was only checked. Of a READ or WRITE hold that was renewed, it
// is how long the lock would have lasted. known is false if Redis has not said it.
func (r RenewReply) Left() (left time.Duration, known bool) {
	return Millis(int64(r - 1)), r > renewDone
}

// RenewResult is what became of a batch.
type RenewResult struct {
	Replies []RenewReply // valid until each returns; none if nothing is known of any hold
	Sent    time.Time
	Refused bool // Redis refused the batch as a whole; one of its holds may be the cause
}

// RenewBatches renews or checks batches of one database, whose keys should be on one node. It calls
// each once for each batch, in any order. It sends a batch again only if Redis has not run it. If a
// slot migration splits the keys of holds, it renews one key a call (R14). It returns when ctx ends
// at the latest.
func (c *Client) RenewBatches(ctx context.Context, batches []RenewBatch, each func(i int, r RenewResult)) {
	some := make([]int, len(batches))
	for i := range some {
		some[i] = i
	}
	for len(some) > 0 {
		unknown, moved := c.renewTogether(ctx, batches, some, each)
		for _, i := range moved {
			c.renewAlone(ctx, &batches[i], i, c.Run, each)
		}
		if len(unknown) == 0 {
			return
		}
		// Redis knows the script then. Time is short: an attempt lasts for a sixth of the TTL.
		c.renewAlone(ctx, &batches[unknown[0]], unknown[0], c.RunText, each)
		some = unknown[1:]
	}
}

// renewTogether renews some of the batches in one write. It returns those that Redis did not renew
// because it does not know the script, and those whose slot has moved.
func (c *Client) renewTogether(ctx context.Context, batches []RenewBatch, some []int,
	each func(int, RenewResult)) (unknown, moved []int) {
	buf := newRenewBuffer()
	defer buf.free()
	for _, i := range some {
		buf.appendCall(&batches[i])
	}
	sent, first := time.Now(), &batches[some[0]]
	text, _, err := c.Links.Scripts(c.limit(ctx), first.DB, first.Slot, len(some), buf.commands, buf.text)
	buf.text = text
	for _, i := range some {
		var replies []RenewReply
		b, failed := &batches[i], err
		if err == nil {
			replies, text, failed = buf.next(text)
		}
		switch {
		case transport.HasCode(failed, "NOSCRIPT"):
			unknown = append(unknown, i)
			continue
		case transport.HasCode(failed, "MOVED"), transport.HasCode(failed, "ASK"):
			moved = append(moved, i)
			continue
		case errors.Is(failed, transport.ErrShape), failed == nil && len(replies) != b.Holds.Len():
			c.Links.DropScriptConnections(b.DB, b.Slot)
		}
		each(i, c.renewResult(ctx, b, replies, failed, sent))
	}
	return unknown, moved
}

// limit is when a call for ctx must be answered.
func (c *Client) limit(ctx context.Context) time.Time {
	if until, ok := ctx.Deadline(); ok {
		return until
	}
	return c.Deadline()
}

// renewAlone renews one batch by Run or RunText.
func (c *Client) renewAlone(ctx context.Context, b *RenewBatch, i int,
	run func(time.Time, *time.Time, *transport.Call) (any, error), each func(int, RenewResult)) {
	sent := time.Now()
	reply, err := run(c.limit(ctx), nil, b.call())
	var replies []RenewReply
	if n, kinds := transport.Items(reply); kinds == transport.Ints(len(n)) { // not another script's
		for i := range n {
			replies = append(replies, RenewReply(n[i]))
		}
	}
	each(i, c.renewResult(ctx, b, replies, err, sent))
}

// call is the call that renews b.
func (b *RenewBatch) call() *transport.Call {
	call := &transport.Call{Script: b.Mode.Renew, DB: b.DB, Args: transport.Words(b.Lasts.Milliseconds())}
	for i := range b.Holds.Len() {
		h := b.Holds.Hold(i)
		call.Keys = append(call.Keys, b.Mode.Keys(h.Key)...)
		call.Args = append(call.Args, string(b.Holds.AppendOwner(i, nil)), RecordPrefix(h.Token, h.Carrier))
	}
	return call
}

// renewResult is the result of a batch, by the replies of its script or its error.
func (c *Client) renewResult(ctx context.Context, b *RenewBatch, replies []RenewReply, err error,
	sent time.Time) RenewResult {
	if err == nil && len(replies) != b.Holds.Len() {
		err = transport.ErrShape
	}
	several, key := b.Mode.RenewKey != nil, b.Holds.Hold(0).Key
	answer, answered := errors.AsType[resp.ReplyError](err)
	reason, noWrites := strings.CutPrefix(string(answer), "UNRENEWED ")
	if err != nil {
		c.RefreshTopologyAfter(transport.Judge(err))
	}
	// An error for a single hold is about it, such as a right that Leash's own user has lost.
	if noWrites || answered && (transport.Judge(err) == transport.Refused || b.Holds.Len() == 1) {
		c.NoteRefusal(key, resp.ReplyError(reason))
	}
	switch {
	case err == nil:
		c.NoteTaken(key)
	case noWrites:
		return RenewResult{}
	case answered && several && transport.Migrates(answer):
		replies = slices.Repeat([]RenewReply{renewUnknown}, b.Holds.Len())
	case answered && (transport.Judge(err) == transport.Answered || transport.Migrates(answer)):
		return RenewResult{Refused: true}
	default:
		// Nothing is known. Asking hold by hold would add load that Redis does not take now.
		return RenewResult{}
	}
	if several && slices.Contains(replies, renewUnknown) {
		c.renewKeys(ctx, b, replies)
	}
	return RenewResult{Replies: replies, Sent: sent}
}

// renewBuffer has the requests and replies of one round. It is reused. With 100,000 renewals a
// second, its garbage would make the collector scan a million holds every few seconds.
type renewBuffer struct {
	commands, text []byte
	holds          []RenewedHold // of one batch
	replies        []RenewReply  // to one batch
	word           [192]byte     // an owner or the start of a record
}

var renewBuffers = sync.Pool{New: func() any { return new(renewBuffer) }}

// maxPooledRenewBuffer is the largest buffer that is kept. A round of a node that lags fits in it,
// because garbage would make the node lag more.
const maxPooledRenewBuffer = 1 << 20

func newRenewBuffer() *renewBuffer {
	buf := renewBuffers.Get().(*renewBuffer)
	buf.commands, buf.text = buf.commands[:0], buf.text[:0]
	return buf
}

func (buf *renewBuffer) free() {
	if cap(buf.commands) <= maxPooledRenewBuffer && cap(buf.text) <= maxPooledRenewBuffer {
		renewBuffers.Put(buf)
	}
}

// appendCall appends the call that renews b. Holds lie far apart in memory. So it reads all of them
// before it uses one: the processor then waits for many at a time.
func (buf *renewBuffer) appendCall(b *RenewBatch) {
	m, n := b.Mode, b.Holds.Len()
	holds := slices.Grow(buf.holds[:0], n)[:n]
	for i := range holds {
		holds[i] = b.Holds.Hold(i)
	}
	keys := n * m.MinKeys()
	dst := resp.AppendArray(buf.commands, 3+keys+1+2*n)
	dst = buf.appendInt(resp.AppendBulk(resp.AppendBulk(dst, "EVALSHA"), m.Renew.SHA), int64(keys))
	for i := range holds {
		dst = resp.AppendBulk(dst, holds[i].Key)
		if m.Helpers != nil {
			for _, helper := range m.Helpers(holds[i].Key) {
				dst = resp.AppendBulk(dst, helper)
			}
		}
	}
	dst = buf.appendInt(dst, b.Lasts.Milliseconds())
	for i := range holds {
		dst = resp.AppendBulk(dst, b.Holds.AppendOwner(i, buf.word[:0]))
		dst = resp.AppendBulk(dst, appendRecordPrefix(buf.word[:0], holds[i].Token, holds[i].Carrier))
	}
	clear(holds) // a pooled buffer must not keep keys
	buf.commands, buf.holds = dst, holds
}

func (buf *renewBuffer) appendInt(dst []byte, n int64) []byte {
	return resp.AppendBulk(dst, resp.AppendDecimal(buf.word[:0], n))
}

// next reads the next reply: an array of integers or an error. The result is valid until the next
// call. rest is the text after the reply.
func (buf *renewBuffer) next(text []byte) (replies []RenewReply, rest []byte, err error) {
	var ok bool
	if buf.replies, rest, ok = resp.CutIntegers(buf.replies[:0], text); ok {
		return buf.replies, rest, nil
	}
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok || !bytes.HasPrefix(line, []byte("-")) {
		return nil, nil, transport.ErrShape
	}
	return nil, rest, resp.ReplyError(line[1:])
}
