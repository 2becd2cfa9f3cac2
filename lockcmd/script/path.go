package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/resp"
)

// Links are connections of Leash's own to Redis, which are faster than those of a client library.
// Methods but Script and Scripts do not block. They are safe for concurrent use.
type Links interface {
	// Script sends one command, in RESP2, to the node that owns a slot, on a connection that many
	// callers share. It appends Redis's reply to dst. It does not look for another node or wait for
	// a connection. If sent is false, Redis did not and will not get the command. It blocks until
	// the given time at most. If writeBy is not nil, the command is not written from that time on,
	// even if this process stood still. It does not keep the command.
	Script(until time.Time, writeBy *time.Time, db, slot int, command, dst []byte) (reply []byte, sent bool, err error)
	// Scripts is Script for n commands at once, which are concatenated in commands. All keys should
	// be of one node. It appends the n replies to dst. It may use other connections than Script.
	Scripts(until time.Time, db, slot, n int, commands, dst []byte) (replies []byte, sent bool, err error)
	// NodeAddr is the address of the node to which Scripts sends commands for a slot, "" for none.
	NodeAddr(slot int) string
	// Refresh starts a refresh of the topology, because a server does not serve as expected.
	Refresh()
	// DropScriptConnections closes the connections to the node of a slot, because one returned a
	// reply of a wrong shape. The replies after it may belong to other commands.
	DropScriptConnections(db, slot int)
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
func (c *Client) runDirect(until time.Time, writeBy *time.Time, call *scriptCall) (reply any, err error, done bool) {
	buf := scriptBuffers.Get().(*scriptBuffer)
	defer buf.free()
	buf.command = call.append(buf.command[:0])
	text, sent, err := c.Links.Script(until, writeBy, call.DB, SlotOf(call.Keys[0]), buf.command, buf.reply[:0])
	buf.reply = text
	switch {
	case err != nil && !sent && !time.Now().Before(until):
		return nil, ErrRefused, true // no time is left
	case err != nil:
		return nil, err, sent
	}
	if n, ok := integers(text); ok && call.Script.shape.fits(n) {
		return n, nil, true
	}
	reply, rest, err := decode(string(text))
	switch {
	case err != nil || rest != "" || !isError(reply) && !call.Script.shape.fits(reply):
		c.Links.DropScriptConnections(call.DB, SlotOf(call.Keys[0]))
		return nil, errors.Join(ErrUnknown, ErrShape, err), true
	case isError(reply):
		err := reply.(ReplyError)
		return nil, err, Judge(err) == Answered && !redis.HasErrorPrefix(err, "NOSCRIPT")
	}
	return reply, nil, true
}

// append writes the call as EVALSHA.
func (call *scriptCall) append(dst []byte) []byte {
	dst = resp.AppendArray(dst, 3+len(call.Keys)+len(call.Args))
	dst = resp.AppendBulk(resp.AppendBulk(dst, "EVALSHA"), call.Script.SHA)
	dst = resp.AppendBulk(dst, decimal(len(call.Keys)))
	for _, key := range call.Keys {
		dst = resp.AppendBulk(dst, key)
	}
	for _, arg := range call.Args {
		dst = resp.AppendBulk(dst, arg)
	}
	return dst
}

// integers reads a reply that is an array of integers, as nearly all are. ok is false for any other
// reply.
func integers(text []byte) (list []int64, ok bool) {
	line, rest := cutLine(text)
	if len(line) != 2 || line[0] != '*' || line[1] < '1' || line[1] > '9' {
		return nil, false
	}
	list = make([]int64, line[1]-'0')
	for i := range list {
		line, rest = cutLine(rest)
		if list[i], ok = integer(line, ':'); !ok {
			return nil, false
		}
	}
	return list, len(rest) == 0
}

// cutLine splits text after its first line. The line is nil when it is not complete.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok {
		return nil, text
	}
	return line, rest
}

// integer reads an integer or an array length: a line that begins with kind.
func integer(line []byte, kind byte) (int64, bool) {
	if len(line) < 2 || line[0] != kind {
		return 0, false
	}
	if len(line) == 2 && '0' <= line[1] && line[1] <= '9' { // the usual case
		return int64(line[1] - '0'), true
	}
	return resp.ParseInt(line[1:])
}

// ReplyError is an error that Redis answered with.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (ReplyError) RedisError() {}

func isError(reply any) bool {
	_, ok := reply.(ReplyError)
	return ok
}

// errReply is the error for bytes that are no RESP2 reply.
var errReply = errors.New("lockcmd: a reply that cannot be read")

// maxNesting is how deep a script's reply may nest. Replies of our scripts are flat lists.
const maxNesting = 2

// decode reads one reply: int64, string, ReplyError, []any or nil.
func decode(text string) (reply any, rest string, err error) { return decodeWithin(maxNesting, text) }

func decodeWithin(depth int, text string) (reply any, rest string, err error) {
	line, rest, ok := strings.Cut(text, "\r\n")
	if !ok || line == "" {
		return nil, "", errReply
	}
	switch line[0] {
	case '+':
		return line[1:], rest, nil
	case '-':
		return ReplyError(line[1:]), rest, nil
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	switch {
	case err != nil:
	case line[0] == ':':
		return n, rest, nil
	case n == -1 && (line[0] == '$' || line[0] == '*'):
		return nil, rest, nil
	case line[0] == '$' && n >= 0 && n <= int64(len(rest)-2) && rest[n:n+2] == "\r\n":
		return rest[:n], rest[n+2:], nil
	case line[0] == '*' && n >= 0 && n <= int64(len(rest)/len("+\r\n")) && depth > 0:
		return decodeItems(depth-1, int(n), rest)
	}
	return nil, "", errReply
}

func decodeItems(depth, n int, text string) (reply any, rest string, err error) {
	items := make([]any, n)
	for i := range items {
		if items[i], text, err = decodeWithin(depth, text); err != nil {
			return nil, "", err
		}
	}
	return items, text, nil
}

// A grant counts only if enough replicas have it, when the command has REPLICAS (R32). Redis's WAIT
// tells, for the writes of its own connection, and blocks that connection. So these calls have
// connections of their own.

const (
	// time between the end of WAIT and the end of its attempt
	replicaMargin = 50 * time.Millisecond
	ReplicaPool   = 64 // connections to one node
)

// waitClients are the clients whose connections WAIT blocks, by database and address. The zero
// value has none.
type waitClients struct {
	mu      sync.Mutex
	clients map[string]*redis.Client
}

// clientFor is the client for the node of another client.
func (p *waitClients) clientFor(node *redis.Client) *redis.Client {
	opt := *node.Options()
	opt.PoolSize = ReplicaPool
	id := strconv.Itoa(opt.DB) + " " + opt.Addr
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[id]
	if c == nil {
		if p.clients == nil {
			p.clients = make(map[string]*redis.Client)
		}
		c = redis.NewClient(&opt)
		p.clients[id] = c
	}
	return c
}

func (p *waitClients) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.Close()
	}
	p.clients = nil
}

// runReplicated runs the script on the node of its keys. After a grant it waits there until enough
// replicas have it, or until limit is near. In a slot migration the script runs like any other,
// without WAIT.
func (c *Client) runReplicated(ctx context.Context, call *scriptCall, limit time.Time) (any, error) {
	call.GotReplicas = 0
	rdb := c.Database(call.DB)
	node, ok := rdb.(*redis.Client)
	if cluster, is := rdb.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, call.Keys[0])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		node, ok = master, true
	}
	if !ok {
		return nil, ErrRefused
	}
	conn := c.waitClients.clientFor(node).Conn()
	defer conn.Close()
	reply, err := call.Script.Run(ctx, conn, call.Keys, call.Args)
	if redis.HasErrorPrefix(err, "ASK") {
		return call.Script.Run(ctx, rdb, call.Keys, call.Args)
	}
	if err == nil && integersOf(reply)[0] == 1 && c.touch(ctx, conn, call.Keys[0]) {
		patience := max(min(call.ReplicaTimeout, time.Until(limit)-replicaMargin), time.Millisecond)
		call.GotReplicas = conn.Wait(ctx, int(call.WantReplicas), patience).Val() // 0 on an error
	}
	return reply, err
}

// touch makes WAIT on this connection cover what Redis has of the lock now. It reports whether that
// worked.
func (c *Client) touch(ctx context.Context, conn Processor, key string) bool {
	reply, err := TouchScript.Run(ctx, conn, []string{key}, nil)
	return err == nil && integersOf(reply)[0] == 1
}
