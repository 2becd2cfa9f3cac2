package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Wire sends a command, in RESP2, to the node that owns a slot, among other callers' commands on one connection, and returns Redis's
// reply. It does not look for another node, nor wait for a connection. Unless sent is set, Redis has not had the command and will not get it.
// It blocks until ctx ends at the latest.
type Wire func(ctx context.Context, db, slot int, command []byte) (reply []byte, sent bool, err error)

// runWired runs r's script over the wire. It reports done unless Redis certainly has not run it: then it is the client's turn, which
// dials, follows redirects and brings the text of scripts.
func (s *Service) runWired(ctx context.Context, r *request) (reply any, err error, done bool) {
	command, ok := r.encode()
	if !ok {
		return nil, nil, false
	}
	text, sent, err := s.cfg.Wire(ctx, r.db, slotOf(r.keys[0]), command)
	switch {
	case err != nil && !sent && ctx.Err() != nil:
		return nil, errRefused, true // and no time is left
	case err != nil:
		return nil, err, sent
	}
	reply, rest, err := decode(string(text))
	switch {
	case err != nil || rest != "":
		return nil, errors.Join(errUnknown, err), true
	case isError(reply):
		err := reply.(replyError)
		return nil, err, judge(err) == answered && !redis.HasErrorPrefix(err, "NOSCRIPT")
	}
	return reply, nil, true
}

// encode is r as EVALSHA. It knows text and integers only.
func (r *request) encode() (command []byte, ok bool) {
	b := appendArray(make([]byte, 0, 512), 3+len(r.keys)+len(r.args))
	b = appendBulk(appendBulk(b, "EVALSHA"), r.script.sha)
	b = appendBulk(b, strconv.Itoa(len(r.keys)))
	for _, key := range r.keys {
		b = appendBulk(b, key)
	}
	for _, arg := range r.args {
		switch arg := arg.(type) {
		case string:
			b = appendBulk(b, arg)
		case int64:
			b = appendBulk(b, strconv.FormatInt(arg, 10))
		case int:
			b = appendBulk(b, strconv.Itoa(arg))
		default:
			return nil, false
		}
	}
	return b, true
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

// errReply says that a reply is not one of RESP2.
var errReply = errors.New("lockcmd: a reply that cannot be read")

// decode reads one reply: int64, string, replyError, []any or nil.
func decode(text string) (reply any, rest string, err error) {
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
	case line[0] == '*' && n >= 0 && n <= int64(len(rest)):
		return decodeItems(int(n), rest)
	}
	return nil, "", errReply
}

func decodeItems(n int, text string) (reply any, rest string, err error) {
	items := make([]any, n)
	for i := range items {
		if items[i], text, err = decode(text); err != nil {
			return nil, "", err
		}
	}
	return items, text, nil
}
