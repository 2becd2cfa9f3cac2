package lockcmd

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// SendScript sends one command, in RESP2, to the node that owns a slot, on a connection that many
// callers share. It appends Redis's reply to dst. It does not look for another node or wait for a
// connection. If sent is false, Redis did not and will not get the command. It blocks until the
// given time at most. If writeBy is not nil, the command is not written from that time on, even if
// this process stood still. It does not keep the command.
type SendScript func(until time.Time, writeBy *time.Time, db, slot int, command, dst []byte) (reply []byte, sent bool, err error)

// SendScripts is SendScript for n commands at once, which are concatenated in commands. All keys
// should be of one node. It appends the n replies to dst. It may use other connections than
// SendScript.
type SendScripts func(until time.Time, db, slot, n int, commands, dst []byte) (replies []byte, sent bool, err error)

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

// runDirect sends the call by SendScript. done is false only if Redis certainly did not run the
// script. Then the caller uses the client, which dials, follows redirects and sends the text of
// unknown scripts.
func (s *Service) runDirect(until time.Time, writeBy *time.Time, call *scriptCall) (reply any, err error, done bool) {
	buf := scriptBuffers.Get().(*scriptBuffer)
	defer buf.free()
	buf.command = call.append(buf.command[:0])
	text, sent, err := s.cfg.SendScript(until, writeBy, call.db, script.SlotOf(call.keys[0]), buf.command, buf.reply[:0])
	buf.reply = text
	switch {
	case err != nil && !sent && !time.Now().Before(until):
		return nil, script.ErrRefused, true // no time is left
	case err != nil:
		return nil, err, sent
	}
	if n, ok := integers(text); ok && call.script.Shape.Fits(n) {
		return n, nil, true
	}
	reply, rest, err := decode(string(text))
	switch {
	case err != nil || rest != "" || !isError(reply) && !call.script.Shape.Fits(reply):
		s.dropConnection(call.db, script.SlotOf(call.keys[0]))
		return nil, errors.Join(script.ErrUnknown, script.ErrShape, err), true
	case isError(reply):
		err := reply.(replyError)
		return nil, err, script.Judge(err) == script.Answered && !redis.HasErrorPrefix(err, "NOSCRIPT")
	}
	return reply, nil, true
}

// dropConnection closes the connection that returned a reply of a wrong shape. The replies after it
// may belong to other commands.
func (s *Service) dropConnection(db, slot int) {
	if s.cfg.DropConnection != nil {
		s.cfg.DropConnection(db, slot)
	}
}

// append writes the call as EVALSHA.
func (call *scriptCall) append(dst []byte) []byte {
	dst = appendArray(dst, 3+len(call.keys)+len(call.args))
	dst = appendBulk(appendBulk(dst, "EVALSHA"), call.script.SHA)
	dst = appendBulk(dst, decimal(len(call.keys)))
	for _, key := range call.keys {
		dst = appendBulk(dst, key)
	}
	for _, arg := range call.args {
		dst = appendBulk(dst, arg)
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
	return parseInt(line[1:])
}

// replyError is an error that Redis answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (replyError) RedisError() {}

func isError(reply any) bool {
	_, ok := reply.(replyError)
	return ok
}

// errReply is the error for bytes that are no RESP2 reply.
var errReply = errors.New("lockcmd: a reply that cannot be read")

// maxNesting is how deep a script's reply may nest. Replies of our scripts are flat lists.
const maxNesting = 2

// decode reads one reply: int64, string, replyError, []any or nil.
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
		return replyError(line[1:]), rest, nil
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
