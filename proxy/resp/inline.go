package resp

import (
	"encoding/hex"
	"strings"
)

// nextInline reads a request that does not begin with "*". It is a line of words, as a person types
// it into telnet.
func (p *Parser) nextInline(buf []byte) (Command, int, error) {
	end := p.find(buf, '\n')
	if end < 0 {
		if len(buf) > maxLine {
			return Command{}, 0, ProtocolError("too big inline request")
		}
		return Command{}, 0, nil
	}
	line := buf[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	args, ok := splitArgs(p.args[:0], line)
	switch {
	case !ok:
		return Command{}, 0, ProtocolError("unbalanced quotes in request")
	case p.Limits.MaxArgs > 0 && len(args) > p.Limits.MaxArgs:
		return Command{}, 0, ProtocolError("more arguments than --max-args allows")
	}
	p.reset()
	if len(args) == 0 {
		return Command{}, end + 1, nil
	}
	if cap(args) <= keptArgs {
		p.args = args
	}
	return Command{Args: args, Raw: AppendCommand(nil, args...)}, end + 1, nil
}

// splitArgs splits a line into words as Redis's sdssplitargs does. Double quotes allow the escapes
// \n \r \t \b \a \xHH, and \ before any other byte. Single quotes allow only \'. A space or the end
// must follow a closing quote. ok is false for unbalanced quotes. The words are appended to dst.
// Words without quotes point into line.
func splitArgs(dst [][]byte, line []byte) (words [][]byte, ok bool) {
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			return dst, true
		}
		word, n, ok := splitWord(line)
		if !ok {
			return nil, false
		}
		dst = append(dst, word)
		line = line[n:]
	}
}

// splitWord reads one word at the start of line and returns the number of bytes it read.
func splitWord(line []byte) (word []byte, n int, ok bool) {
	i := 0
	for i < len(line) && !isSpace(line[i]) && line[i] != '"' && line[i] != '\'' {
		i++
	}
	if i == len(line) || isSpace(line[i]) {
		return line[:i:i], i, true
	}
	word = append([]byte{}, line[:i]...)
	for i < len(line) && !isSpace(line[i]) {
		if c := line[i]; c != '"' && c != '\'' {
			word = append(word, c)
			i++
			continue
		}
		var took int
		word, took, ok = appendQuoted(word, line[i:])
		if !ok {
			return nil, 0, false
		}
		return word, i + took, true
	}
	return word, i, true
}

// appendQuoted appends the content of the quotes at the start of line.
func appendQuoted(dst, line []byte) (word []byte, n int, ok bool) {
	quote := line[0]
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == quote:
			i++
			return dst, i, i == len(line) || isSpace(line[i])
		case c != '\\' || i+1 == len(line):
			dst = append(dst, c)
		case quote == '\'':
			if line[i+1] == '\'' {
				i++
				c = '\''
			}
			dst = append(dst, c)
		case line[i+1] == 'x' && i+3 < len(line) && isByte(line[i+2:i+4]):
			dst, _ = hex.AppendDecode(dst, line[i+2:i+4])
			i += 3
		default:
			i++
			dst = append(dst, unescape(line[i]))
		}
	}
	return nil, 0, false
}

// isSpace is C's isspace in the C locale.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// isByte reports whether two characters are the hexadecimal digits of a byte.
func isByte(digits []byte) bool {
	var b [1]byte
	_, err := hex.Decode(b[:], digits)
	return err == nil
}

func unescape(c byte) byte {
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		return "\n\r\t\b\a"[i]
	}
	return c
}
