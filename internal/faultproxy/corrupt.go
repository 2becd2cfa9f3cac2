package faultproxy

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Corrupted is the text in most well-formed replies that Corrupt makes.
const Corrupted = "CORRUPTED"

// oddNumber is in most replacements that have a number.
const oddNumber = "424242424242"

// Corrupt replaces about that share of all replies and messages from now on. 0 stops it. It skips
// replicas' connections and those that the proxy does not parse. A replacement is not valid RESP,
// or it is incomplete and nothing follows it on that connection. With lies, some replacements are
// well-formed replies of another type. Most of those contain Corrupted if they contain a text.
func (p *Proxy) Corrupt(share float64, lies bool) {
	p.lies.Store(lies)
	p.corrupt.Store(math.Float64bits(share))
}

// corruptsNext decides at random whether to corrupt the next frame.
func (p *Proxy) corruptsNext() bool {
	share := math.Float64frombits(p.corrupt.Load())
	return share > 0 && rand.Float64() < share
}

// unreadable are replacements that a RESP2 client cannot parse.
var unreadable = []string{
	":\n", "+OK\n", "$2\nab\n", "\r\n", "\n", ":1\r:2\r\n", ":12a\r\n", ":\r\n", ":--1\r\n", ":9223372036854775808\r\n", ":99999999999999999999999\r\n",
	"$9999999999999\r\n", "$18446744073709551615\r\n", "$-2\r\n", "$-9223372036854775808\r\n", "$\r\n", "$3\r\nabcdef\r\n", "$?\r\n;4\r\nabcd\r\n",
	"*-7\r\n", "*\r\n", "*99999999999999\r\n", "*?\r\n", "PONG\r\n", "\x00\xff\xfe\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
	"*2\r\n>2\r\n+a\r\n:1\r\n:2\r\n", "%-1\r\n", ">0\r\n", "#x\r\n", "_x\r\n", "=2\r\nab\r\n", "~-1\r\n",
}

// unfinished are incomplete replacements. Nothing follows them on the connection.
var unfinished = []string{
	"$1000000\r\nabc", "*2147483647\r\n", "*3\r\n:1\r\n", "$5", "*", ":", "+" + strings.Repeat("a", 100_000), "-ERR" + strings.Repeat(" a", 50_000),
	strings.Repeat("*1\r\n", 50_000), "$4294967296\r\n",
}

// strange are replacements that are well-formed.
var strange = []string{
	"+" + Corrupted + "\r\n", "-ERR " + Corrupted + "\r\n", "$9\r\n" + Corrupted + "\r\n", "*1\r\n$9\r\n" + Corrupted + "\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
	":" + oddNumber + "\r\n", ":-" + oddNumber + "\r\n", ":9223372036854775807\r\n", ":-9223372036854775808\r\n", "*1\r\n:" + oddNumber + "\r\n", "*2\r\n:" + oddNumber + "\r\n*0\r\n",
	"-\r\n", "+\r\n", "$0\r\n\r\n", "-MOVED 99999 127.0.0.1:1\r\n", "-MOVED -5 127.0.0.1:1\r\n", "-MOVED 5\r\n", "-MOVED\r\n", "-MOVED 5 x\r\n", "-ASK 5 127.0.0.1:99999\r\n",
	strings.Repeat("*1\r\n", 50_000) + ":" + oddNumber + "\r\n",
}

// corruptLocked delivers a corrupt reply instead of a whole frame.
func (c *conn) corruptLocked() {
	c.corrupting = false
	c.proxy.stats.corrupted.Add(1)
	switch n := rand.IntN(8); {
	case n <= 2 && c.proxy.lies.Load():
		c.out = append(c.out, strange[rand.IntN(len(strange))]...)
	case n <= 5:
		c.out = append(c.out, unreadable[rand.IntN(len(unreadable))]...)
	case n == 6:
		c.out = append(c.out, bytes.ReplaceAll(c.original, crlf, []byte("\n"))...)
	default:
		c.out = append(c.out, unfinished[rand.IntN(len(unfinished))]...)
		c.truncated = true
	}
	c.original = c.original[:0]
}

// Replacement reports whether a reply is, or contains, one of the well-formed replies that Corrupt
// makes.
func Replacement(reply string) bool {
	return strings.Contains(reply, Corrupted) || strings.Contains(reply, oddNumber) || slices.Contains(strange, reply)
}
