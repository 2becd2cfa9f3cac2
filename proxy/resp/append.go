package resp

import (
	"strconv"
	"strings"
)

// Replies that are sent often.
const (
	OK          = "+OK\r\n"
	Pong        = "+PONG\r\n"
	NilBulk     = "$-1\r\n"
	NilArray    = "*-1\r\n"
	Null        = "_\r\n" // RESP3
	EmptyArray  = "*0\r\n"
	asciiCRLF   = "\r\n"
	plainText   = "txt:"
	bulkMark    = '$'
	arrayMark   = '*'
	integerMark = ':'
	errorMark   = '-'
	statusMark  = '+'
)

// AppendError appends an error reply. message begins with its code, as in "ERR syntax error". A
// line break would end the reply. As in Redis, those at the end are left out, and others become
// spaces.
func AppendError(dst []byte, message string) []byte {
	message = strings.TrimRight(message, "\r\n")
	dst = append(dst, errorMark)
	for i := range len(message) {
		c := message[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, asciiCRLF...)
}

// AppendStatus appends a simple string reply.
func AppendStatus(dst []byte, s string) []byte {
	dst = append(dst, statusMark)
	dst = append(dst, s...)
	return append(dst, asciiCRLF...)
}

// AppendInt appends an integer reply.
func AppendInt(dst []byte, n int64) []byte {
	return appendHeader(dst, integerMark, n)
}

// AppendDecimal appends a number's digits, as an argument has them.
func AppendDecimal(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// AppendArray appends the header of an array of n elements, which follow.
func AppendArray(dst []byte, n int) []byte {
	return appendHeader(dst, arrayMark, int64(n))
}

// AppendMap appends the header of a RESP3 map of n pairs, which follow.
func AppendMap(dst []byte, n int) []byte {
	return appendHeader(dst, '%', int64(n))
}

// AppendSet appends a set of simple strings. In RESP2 it is an array.
func AppendSet(b []byte, resp3 bool, members ...string) []byte {
	b = AppendSetHeader(b, resp3, len(members))
	for _, m := range members {
		b = AppendStatus(b, m)
	}
	return b
}

// AppendSetHeader appends the header of a set of n members. In RESP2 it is that of an array.
func AppendSetHeader(b []byte, resp3 bool, n int) []byte {
	start := len(b)
	b = AppendArray(b, n)
	if resp3 {
		b[start] = '~'
	}
	return b
}

// AppendPairs appends the header of a map with n pairs. In RESP2 it is the header of an array.
func AppendPairs(b []byte, resp3 bool, n int) []byte {
	if resp3 {
		return AppendMap(b, n)
	}
	return AppendArray(b, 2*n)
}

// AppendBulk appends a bulk string.
func AppendBulk[T ~[]byte | ~string](dst []byte, b T) []byte {
	dst = appendHeader(dst, bulkMark, int64(len(b)))
	dst = append(dst, b...)
	return append(dst, asciiCRLF...)
}

// AppendCommand appends a request: an array of bulk strings.
func AppendCommand[T ~[]byte | ~string](dst []byte, args ...T) []byte {
	dst = AppendArray(dst, len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}

func appendHeader(dst []byte, mark byte, n int64) []byte {
	dst = append(dst, mark)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, asciiCRLF...)
}

// AppendText appends a text for people. It is a verbatim string in RESP3.
func AppendText(dst []byte, resp3 bool, text string) []byte {
	if !resp3 {
		return AppendBulk(dst, text)
	}
	dst = appendHeader(dst, '=', int64(len(text)+len(plainText)))
	dst = append(dst, plainText...)
	dst = append(dst, text...)
	return append(dst, asciiCRLF...)
}
