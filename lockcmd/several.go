package lockcmd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/proxy/resp"
)

// Commands with several keys, in any slots.

const (
	msgNumKeys  = "ERR numkeys should be greater than 0"
	msgManyKeys = "ERR Number of keys can't be greater than number of args"
	msgTwice    = "ERR a key is given twice"
	msgQuorum   = "ERR QUORUM should be greater than 0 and not greater than numkeys"
)

// parseKeys reads "numkeys key …" and returns the rest.
func (s *Service) parseKeys(args [][]byte) (keys []string, rest [][]byte, msg string) {
	n, ok := resp.ParseInt(args[1])
	switch {
	case !ok || n < 1:
		return nil, nil, msgNumKeys
	case n > int64(len(args)-2):
		return nil, nil, msgManyKeys
	}
	seen := make(map[string]bool, n)
	for _, arg := range args[2 : 2+n] {
		key := string(arg)
		if msg := s.keyError(key); msg != "" {
			return nil, nil, msg
		}
		if seen[key] {
			return nil, nil, msgTwice
		}
		seen[key] = true
		keys = append(keys, key)
	}
	return keys, args[2+n:], ""
}

// macquire runs LOCK.MACQUIRE.
func (c *Carrier) macquire(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	keys, rest, msg := s.parseKeys(args)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	o, msg := parseOptions(rest, macquireWords)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	opts, msg := s.acquireOptionsOf("LOCK.MACQUIRE", o, keys...)
	switch {
	case msg != "":
		return resp.AppendError(dst, msg)
	case o.quorum != nil && (*o.quorum < 1 || *o.quorum > int64(len(keys))):
		return resp.AppendError(dst, msgQuorum)
	case c.grantsNothing():
		return resp.AppendError(dst, refusal.Draining)
	}
	quorum := 0
	if o.quorum != nil {
		quorum = int(*o.quorum)
	}
	opts.DB = c.db
	tokens, r := c.AcquireAll(ctx, opts, keys, quorum)
	if !r.Took() {
		return c.replyTaken(dst, r, "*-1\r\n")
	}
	dst = resp.AppendArray(dst, len(tokens))
	for _, token := range tokens {
		if token == 0 {
			dst = append(dst, resp.NilBulk...)
		} else {
			dst = resp.AppendInt(dst, token)
		}
	}
	return dst
}

// mrelease runs LOCK.MRELEASE. An error is about one of the keys. All other keys that can be
// released are released.
func (c *Carrier) mrelease(_ context.Context, dst []byte, args [][]byte) []byte {
	keys, rest, msg := c.service.parseKeys(args)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	each, msg := parseMrelease(len(keys), rest)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	key, reason, lost := c.takeUnreportedLoss([]byte("LOCK.MRELEASE"), args)
	replies := c.releaseEach(len(keys), func(i int) string { return keys[i] },
		func(i int) []byte { return c.unlock(nil, keys[i], each[i]) })
	if lost {
		return resp.AppendError(dst, string(acquire.Loss(key, reason)))
	}
	return appendReleased(dst, replies)
}

// releaseEach calls release with every number below n, several at a time, and returns the replies.
// key returns the key that a number is about.
func (c *Carrier) releaseEach(n int, key func(i int) string, release func(i int) []byte) []string {
	replies := make([]string, n)
	c.service.Releaser.InParallelByNode(n, key, func(i int) {
		replies[i] = refusedReply // after a panic
		replies[i] = string(release(i))
	})
	return replies
}

// parseMrelease returns the options of each key.
func parseMrelease(n int, rest [][]byte) (each []options, msg string) {
	if len(rest) != 1+n || resp.Word(rest[0]) != "TOKENS" {
		o, msg := parseOptions(rest, "OWNER")
		return slices.Repeat([]options{o}, n), msg
	}
	each = make([]options, n)
	for i := range each {
		token, ok := resp.ParseInt(rest[1+i])
		if !ok || token < 1 {
			return nil, refusal.NotInteger
		}
		each[i].Token = token
	}
	return each, ""
}

// appendReleased answers how many releases ended a hold, or one error: the first of a loss, or of a
// release that was not done, or of one that goes on. A missing hold is no error.
func appendReleased(dst []byte, replies []string) []byte {
	ended, lost, refused, goesOn := 0, "", "", ""
	for _, r := range replies {
		switch {
		case r == ":1\r\n":
			ended++
		case r[0] == ':', strings.HasPrefix(r, "-LOCKNOTHELD "):
		case strings.HasPrefix(r, "-LOCKLOST "):
			lost = cmp.Or(lost, r)
		case r == laterReply:
			goesOn = r
		default:
			refused = cmp.Or(refused, r)
		}
	}
	return append(dst, cmp.Or(lost, refused, goesOn, ":"+strconv.Itoa(ended)+"\r\n")...)
}
