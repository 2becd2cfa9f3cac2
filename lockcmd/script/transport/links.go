package transport

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Links are connections of Leash's own to Redis, which are faster than those of a client library.
// Methods but Script and Scripts do not block. They are safe for concurrent use.
type Links interface {
	// Script sends one command, in RESP2, to the node that owns a slot, on a connection that many
	// callers share. It appends Redis's reply to dst. It does not look for another node or wait for
	// a connection. If sent is false, Redis did not and will not get the command. It blocks until
	// the given time at most. If writeBy is not nil, the command is not written from that time on,
	// even if this process stood still. It does not keep the command.
	Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command, dst []byte) (reply []byte,
		sent bool, err error)
	// Scripts is Script for n commands at once, which are concatenated in commands. All keys should
	// be of one node. It appends the n replies to dst. It may use other connections than Script.
	Scripts(until time.Time, db int, slot slots.Slot, n int, commands, dst []byte) (replies []byte, sent bool,
		err error)
	// NodeAddr is the address of the node to which Scripts sends commands for a slot, "" for none.
	NodeAddr(slot slots.Slot) string
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

// runDirect sends the call by Links. done is false only if Redis certainly did not run the
// script. Then the caller uses the client, which dials, follows redirects and sends the text of
// unknown scripts.
func (c *Client) runDirect(until time.Time, writeBy *time.Time, call *Call) (reply any, err error, done bool) {
	buf := scriptBuffers.Get().(*scriptBuffer)
	defer buf.free()
	buf.command = call.Append(buf.command[:0])
	slot := slots.Of([]byte(call.Keys[0]))
	text, sent, err := c.Links.Script(until, writeBy, call.DB, slot, buf.command, buf.reply[:0])
	buf.reply = text
	switch {
	case err != nil && !sent && !time.Now().Before(until):
		return nil, ErrRefused, true // no time is left
	case err != nil:
		return nil, err, sent
	}
	reply, err = decode(text)
	switch {
	case errors.Is(err, ErrShape):
		return nil, c.badShape(call), true
	case err != nil:
		return nil, err, Judge(err) == Answered && !redis.HasErrorPrefix(err, "NOSCRIPT")
	}
	return reply, nil, true
}

// Append writes the call as EVALSHA.
func (call *Call) Append(dst []byte) []byte {
	dst = resp.AppendArray(dst, 3+len(call.Keys)+len(call.Args))
	dst = resp.AppendBulk(resp.AppendBulk(dst, "EVALSHA"), call.Script.SHA)
	dst = resp.AppendBulk(dst, Decimal(len(call.Keys)))
	for _, key := range call.Keys {
		dst = resp.AppendBulk(dst, key)
	}
	for _, arg := range call.Args {
		dst = resp.AppendBulk(dst, arg)
	}
	return dst
}
