package resp

import (
	"bytes"
	"math"
)

// maxLine is PROTO_INLINE_MAX_SIZE: how many bytes may wait for a line end.
const maxLine = 64 * 1024

// Before a client has authenticated Redis takes no more than this.
const (
	maxUnauthenticatedArgs = 10
	maxUnauthenticatedBulk = 16 * 1024
)

// keptArgs is how many arguments' worth of slices a Parser keeps for the next
// command; a larger command's are given back.
const keptArgs = 1024

// Limits are the most that a Parser accepts.
type Limits struct {
	MaxBulk int64 // bytes of one argument
	MaxArgs int   // arguments of one command; Redis itself takes 2^31-1
	// MaxCommand is how many bytes one command may have in all, as Redis's
	// client-query-buffer-limit; if zero, there is no such limit.
	MaxCommand int
	// Unauthenticated applies Redis's tighter limits for a client that still
	// has to authenticate: 10 arguments of 16 KiB.
	Unauthenticated bool
}

// Command is one complete request. Its slices point into the bytes given to
// Parser.Next (or, after an inline or irregular request, into a copy) and
// Args is overwritten by the next call of Next.
type Command struct {
	Args [][]byte // the name first; empty for a request that Redis ignores
	Raw  []byte   // the request as an array of bulk strings that any server takes
}

// Parser finds the commands in a client's byte stream as processInlineBuffer
// and processMultibulkBuffer of Redis 7 do, so that what Redis takes is taken
// and what it refuses is refused in the same words. Points worth knowing:
//
//   - Numbers follow string2ll (ParseInt), so "$03" and "$-0" are errors.
//   - Line ends are looked for with strchr: a NUL hides all behind it, and the
//     line then waits until 64 KiB are there, which is an error.
//   - A header line ends at the first CR; the byte behind it must be there and
//     is not looked at. Nor are the two bytes behind a bulk. Such irregular
//     requests are written anew for upstream (Command.Raw).
//   - "$" is only checked once the header's line end is there.
//   - "*0" and "*-1" and empty inline lines are ignored: a Command without Args.
//
// The zero value with Limits set is ready. A Parser that has returned an error
// must not be used again.
type Parser struct {
	Limits Limits

	// The current command; offsets count from its first byte.
	pos       int   // up to here it is parsed
	scanned   int   // up to here no line end was found (at least pos)
	hidden    bool  // a NUL lies before the line end that is looked for
	bulks     int   // bulk strings still missing; 0 before the header
	bulk      int64 // length of the bulk at pos, -1 while its header is missing
	irregular bool  // Raw must be written anew

	spans []span
	args  [][]byte
}

type span struct{ from, to int }

// ProtocolError ends a session. Redis sends "-ERR Protocol error: " and the
// text, then closes.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// Next looks for one command at the start of buf. n is how many bytes it took;
// n == 0 means that it is not complete: call again with the same bytes and
// more behind them. A command without Args is one that Redis ignores.
func (p *Parser) Next(buf []byte) (cmd Command, n int, err error) {
	if len(buf) == 0 {
		return Command{}, 0, nil
	}
	if buf[0] != arrayMark {
		return p.nextInline(buf)
	}
	if p.bulks == 0 {
		if n, err = p.arrayHeader(buf); n != 0 || err != nil || p.bulks == 0 {
			return Command{}, n, err
		}
	}
	for p.bulks > 0 {
		if p.bulk < 0 {
			if ok, err := p.bulkHeader(buf); !ok || err != nil {
				return Command{}, 0, err
			}
		}
		end := p.pos + int(p.bulk)
		if p.Limits.MaxCommand > 0 && end > p.Limits.MaxCommand {
			return Command{}, 0, ProtocolError("command larger than the query buffer may be")
		}
		if len(buf) < end+2 {
			return Command{}, 0, nil
		}
		p.irregular = p.irregular || buf[end] != '\r' || buf[end+1] != '\n'
		p.spans = append(p.spans, span{p.pos, end})
		p.advance(end + 2)
		p.bulk = -1
		p.bulks--
	}
	return p.finish(buf)
}

// ParseRequest reads a whole request back that a Parser has let through, however
// large; ok is false for anything else. The command's arguments lie in request.
func ParseRequest(request []byte) (cmd Command, ok bool) {
	p := Parser{Limits: Limits{MaxBulk: 1 << 62, MaxArgs: 1 << 30}}
	cmd, n, err := p.Next(request)
	return cmd, err == nil && n > 0
}

// Need returns how many bytes from the start of the current command must be there before Next can
// go on.
func (p *Parser) Need() int {
	if p.bulks > 0 && p.bulk >= 0 {
		return p.pos + int(p.bulk) + 2
	}
	return p.pos + 1
}

// Forget lets go of the last command's arguments, which must not be used any
// more: they keep the bytes that they lie in from being freed.
func (p *Parser) Forget() { p.args = nil }

// arrayHeader reads "*<n>". n > 0 means that the whole request was that header.
func (p *Parser) arrayHeader(buf []byte) (n int, err error) {
	cr, err := p.lineEnd(buf, "too big mbulk count string")
	if cr < 0 {
		return 0, err
	}
	count, ok := ParseInt(buf[1:cr])
	switch {
	case !ok || count > math.MaxInt32:
		return 0, ProtocolError("invalid multibulk length")
	case p.Limits.Unauthenticated && count > maxUnauthenticatedArgs:
		return 0, ProtocolError("unauthenticated multibulk length")
	case count > int64(p.Limits.MaxArgs):
		return 0, ProtocolError("more arguments than --max-args allows")
	case count <= 0:
		p.reset()
		return cr + 2, nil
	}
	p.irregular = buf[cr+1] != '\n'
	p.advance(cr + 2)
	p.bulks, p.bulk = int(count), -1
	return 0, nil
}

// bulkHeader reads "$<n>" at pos; ok is false while it is not complete.
func (p *Parser) bulkHeader(buf []byte) (ok bool, err error) {
	cr, err := p.lineEnd(buf, "too big bulk count string")
	if cr < 0 {
		return false, err
	}
	if buf[p.pos] != bulkMark {
		return false, ProtocolError("expected '$', got '" + string(buf[p.pos:p.pos+1]) + "'")
	}
	size, ok := ParseInt(buf[p.pos+1 : cr])
	switch {
	case !ok || size < 0 || size > p.Limits.MaxBulk:
		return false, ProtocolError("invalid bulk length")
	case p.Limits.Unauthenticated && size > maxUnauthenticatedBulk:
		return false, ProtocolError("unauthenticated bulk length")
	}
	p.irregular = p.irregular || buf[cr+1] != '\n'
	p.advance(cr + 2)
	p.bulk = size
	return true, nil
}

// lineEnd finds the CR that ends the header at pos, with one byte behind it.
// It returns -1 while that is not there, and the error once too much waits.
func (p *Parser) lineEnd(buf []byte, tooBig ProtocolError) (int, error) {
	if i := p.find(buf, '\r'); i >= 0 {
		if i+2 > len(buf) {
			return -1, nil
		}
		return i, nil
	}
	if len(buf)-p.pos > maxLine {
		return -1, tooBig
	}
	return -1, nil
}

// find is strchr from pos, going on where it stopped the last time.
func (p *Parser) find(buf []byte, c byte) int {
	if p.hidden {
		return -1
	}
	rest := buf[p.scanned:]
	i := bytes.IndexByte(rest, c)
	if i >= 0 {
		rest = rest[:i]
	}
	if bytes.IndexByte(rest, 0) >= 0 {
		p.hidden = true
		return -1
	}
	if i < 0 {
		p.scanned = len(buf)
		return -1
	}
	p.scanned += i
	return p.scanned
}

func (p *Parser) advance(to int) { p.pos, p.scanned = to, to }

func (p *Parser) finish(buf []byte) (Command, int, error) {
	n := p.pos
	args := p.args[:0]
	for _, s := range p.spans {
		args = append(args, buf[s.from:s.to:s.to])
	}
	cmd := Command{Args: args, Raw: buf[:n:n]}
	if p.irregular {
		cmd.Raw = AppendCommand(nil, args...)
	}
	p.args = args
	p.reset()
	return cmd, n, nil
}

// reset prepares for the next command.
func (p *Parser) reset() {
	if cap(p.spans) > keptArgs {
		p.spans = nil
	}
	if cap(p.args) > keptArgs {
		p.args = nil
	}
	p.pos, p.scanned, p.hidden = 0, 0, false
	p.bulks, p.bulk, p.irregular = 0, -1, false
	p.spans = p.spans[:0]
}
