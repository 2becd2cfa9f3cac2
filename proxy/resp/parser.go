package resp

import "math"

// maxLine is Redis's PROTO_INLINE_MAX_SIZE, in bytes. A line may be no longer than that before its
// end has come.
const maxLine = 64 * 1024

// Redis's limits for a client that must authenticate and has not done so.
const (
	maxUnauthenticatedArgs = 10
	maxUnauthenticatedBulk = 16 * 1024
)

// keptArgs limits the slices that a Parser keeps for the next command, in arguments. Larger slices
// are left to the garbage collector.
const keptArgs = 1024

// Limits are the limits of a Parser.
type Limits struct {
	MaxBulk int64 // bytes of one argument
	MaxArgs int   // arguments of one command; Redis accepts 2^31-1
	// MaxCommand limits the bytes of one command, like Redis's client-query-buffer-limit. If zero,
	// there is no limit.
	MaxCommand int
	// Unauthenticated applies Redis's lower limits for a client that must still authenticate: 10
	// arguments of 16 KiB each.
	Unauthenticated bool
}

// Command is one complete request. Its slices point into the bytes given to Parser.Next. After an
// inline or irregular request, they may point into a copy. The next call of Next overwrites Args.
type Command struct {
	Args [][]byte // the name first; empty for a request that Redis ignores
	Raw  []byte   // the request as an array of bulk strings that any server takes
}

// Parser finds the commands in a client's byte stream. It follows processInlineBuffer and
// processMultibulkBuffer of Redis 7: it accepts and refuses the same requests, with the same error
// texts. Special cases:
//
//   - Numbers follow string2ll (ParseInt), so "$03" and "$-0" are errors.
//   - Redis looks for line ends with strchr, which stops at a NUL. A line with a NUL is never
//     complete. It is an error once it has more than 64 KiB.
//   - A header line ends at the first CR. One byte must follow it, which may be any byte. The two
//     bytes after a bulk string may be any bytes too. The Parser writes such an irregular request
//     again in the regular form (Command.Raw).
//   - The Parser checks for "$" only when the header line is complete.
//   - "*0", "*-1" and empty inline lines are ignored. Their Command has no Args.
//
// The zero value is ready when Limits is set. A Parser must not be used after it has returned an
// error.
type Parser struct {
	Limits Limits

	// The fields below describe the current command. Offsets count from its first byte.
	pos       int   // the bytes before it are parsed
	scanned   int   // no line end was found before it; at least pos
	hidden    bool  // there is a NUL before the end of the current line
	bulks     int   // bulk strings still missing; 0 before the header
	bulk      int64 // length of the bulk at pos, -1 while its header is missing
	irregular bool  // Raw must be written in the regular form

	spans []span
	args  [][]byte
}

type span struct{ from, to int }

// ProtocolError ends a session. Redis sends "-ERR Protocol error: " with the text, and closes the
// connection.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// Next reads one command at the start of buf. n is its length in bytes. If n is 0, the command is
// not complete: call Next again with the same bytes and more after them. Redis ignores a command
// without Args.
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

// ParseRequest parses a whole request that a Parser has accepted, of any size. ok is false for all
// other bytes. The arguments point into request.
func ParseRequest(request []byte) (cmd Command, ok bool) {
	p := Parser{Limits: Limits{MaxBulk: 1 << 62, MaxArgs: 1 << 30}}
	cmd, n, err := p.Next(request)
	return cmd, err == nil && n > 0
}

// Need returns how many bytes of the current command Next needs before it can continue. It counts
// from the command's first byte.
func (p *Parser) Need() int {
	if p.bulks > 0 && p.bulk >= 0 {
		return p.pos + int(p.bulk) + 2
	}
	return p.pos + 1
}

// Forget drops the arguments of the last command, so that the garbage collector can free their
// bytes. The caller must not use them any more.
func (p *Parser) Forget() { p.args = nil }

// arrayHeader reads "*<n>". A result above 0 means that the whole request is that header.
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

// bulkHeader reads "$<n>" at pos. ok is false if it is not complete.
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

// lineEnd returns the index of the CR that ends the header at pos. One byte must follow the CR. It
// returns -1 if the line is not complete, with an error if the line is too long.
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

// find is strchr from pos. It continues where the last search stopped.
func (p *Parser) find(buf []byte, c byte) int {
	if p.hidden {
		return -1
	}
	for i, b := range buf[p.scanned:] {
		switch b {
		case c:
			p.scanned += i
			return p.scanned
		case 0:
			p.hidden = true
			return -1
		}
	}
	p.scanned = len(buf)
	return -1
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
