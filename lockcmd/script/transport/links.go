package transport

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Links are Leash's own connections to Redis, as its own user, in RESP2. Methods but the first
// three do not block. They are safe for concurrent use.
type Links interface {
	// Script sends one command to the node that owns a slot, on a connection that many callers
	// share, and follows redirects. It appends Redis's reply to dst. If sent is false, Redis did
	// not and will not get the command. It blocks until the given time at most. If writeBy is not
	// nil, the command is not written from that time on, even if this process stood still. It does
	// not keep the command.
	Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command, dst []byte) (reply []byte,
		sent bool, err error)
	// Scripts is Script for n commands at once, which are concatenated in commands. All keys should
	// be of one node. It appends the n replies to dst. It follows no redirects.
	Scripts(until time.Time, db int, slot slots.Slot, n int, commands, dst []byte) (replies []byte, sent bool,
		err error)
	// Alone is Scripts on a connection that no other caller has meanwhile.
	Alone(until time.Time, db int, slot slots.Slot, n int, commands, dst []byte) (replies []byte, sent bool,
		err error)
	// NodeAddr is the address of the node to which Scripts sends commands for a slot, "" for none.
	NodeAddr(slot slots.Slot) string
	// Owners gives the index of the master that serves each slot of a cluster, -1 for none. It is
	// nil for a single Redis.
	Owners() []int
	// Refresh starts a refresh of the topology, because a server does not serve as expected.
	Refresh()
	// DropScriptConnections closes the connections to the node of a slot, because one returned a
	// reply of a wrong shape. The replies after it may belong to other commands.
	DropScriptConnections(db int, slot slots.Slot)
}

// scriptBuffer has the buffers of one script call.
type scriptBuffer struct{ command, reply []byte }

// scriptBuffers are pooled: the buffers were a third of what a command allocated.
var scriptBuffers = sync.Pool{New: func() any { return &scriptBuffer{command: make([]byte, 0, 512)} }}

// maxPooledScriptBuffer is the largest buffer that goes back to the pool.
const maxPooledScriptBuffer = 4 << 10

func (buf *scriptBuffer) free() {
	if cap(buf.command) <= maxPooledScriptBuffer && cap(buf.reply) <= maxPooledScriptBuffer {
		scriptBuffers.Put(buf)
	}
}

// Run sends the call by the script's hash, and by its text if Redis does not know it. It does not
// repeat a call that may have run. Judge says what its error means. It blocks until the given time
// at most; writeBy is as of Links.Script.
func (c *Client) Run(until time.Time, writeBy *time.Time, call *Call) (reply any, err error) {
	reply, err = c.send(until, writeBy, call, "EVALSHA", call.Script.SHA)
	if HasCode(err, "NOSCRIPT") {
		return c.RunText(until, writeBy, call)
	}
	return reply, err
}

// RunText is Run for a script that Redis does not know. It sends the text at once.
func (c *Client) RunText(until time.Time, writeBy *time.Time, call *Call) (reply any, err error) {
	return c.send(until, writeBy, call, "EVAL", call.Script.Source)
}

// send sends the call once. The error is ErrRefused if Redis certainly did not get it.
func (c *Client) send(until time.Time, writeBy *time.Time, call *Call, verb, body string) (reply any, err error) {
	buf := scriptBuffers.Get().(*scriptBuffer)
	defer buf.free()
	buf.command = call.append(buf.command[:0], verb, body)
	slot := slots.Of([]byte(call.Keys[0]))
	text, sent, err := c.Links.Script(until, writeBy, call.DB, slot, buf.command, buf.reply[:0])
	buf.reply = text
	switch {
	case err != nil && !sent:
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return nil, err
	}
	if reply, err = decode(text); errors.Is(err, ErrShape) {
		return nil, c.badShape(call)
	}
	return reply, err
}

// append writes the call as EVALSHA with the hash of the script, or as EVAL with its text.
func (call *Call) append(dst []byte, verb, body string) []byte {
	dst = resp.AppendArray(dst, 3+len(call.Keys)+len(call.Args))
	dst = resp.AppendBulk(resp.AppendBulk(dst, verb), body)
	dst = resp.AppendBulk(dst, Decimal(len(call.Keys)))
	for _, key := range call.Keys {
		dst = resp.AppendBulk(dst, key)
	}
	for _, arg := range call.Args {
		dst = resp.AppendBulk(dst, arg)
	}
	return dst
}
