package client_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// hostile are byte streams that Redis and Leash must answer alike.
var hostile = map[string]string{
	"ping":                    "*1\r\n$4\r\nPING\r\n",
	"overflowing length":      "*1\r\n$9223372036854775806\r\n",
	"empty array":             "*0\r\nPING\r\n",
	"null array":              "*-1\r\nPING\r\n",
	"many negative":           "*-10\r\n*-2147483648\r\nPING\r\n",
	"too many":                "*2147483648\r\n",
	"negative bulk":           "*2\r\n$3\r\nGET\r\n$-7\r\n",
	"leading zero":            "*2\r\n$3\r\nGET\r\n$03\r\nabc\r\n",
	"minus zero":              "*2\r\n$3\r\nGET\r\n$-0\r\n\r\n",
	"wrapped length":          "*2\r\n$3\r\nGET\r\n$18446744073709551619\r\nabc\r\n",
	"plus":                    "*+1\r\n$4\r\nPING\r\n",
	"no dollar":               "*1\r\nPING\r\n",
	"newline for dollar":      "*1\r\n\nPING\r\n",
	"return for dollar":       "*1\r\n\rPING\r\n",
	"NUL for dollar":          "*1\r\n\x00PING\r\n",
	"high byte for dollar":    "*1\r\n\xff4\r\nPING\r\n",
	"line ends not looked at": "*1\rX$4\rYPINGZZ*1\r\n$4\r\nPING\r\n",
	"quotes":                  "ECHO \"a\\x41\\n\\\"b\"\r\nECHO 'it\\'s'\r\nPING\n",
	"unbalanced":              "PING\r\nECHO \"abc\r\nPING\r\n",
	"unbalanced single":       "ECHO 'abc\r\n",
	"text behind quote":       "ECHO \"a\"b\r\n",
	"escape at the end":       "ECHO \"a\\\r\n",
	"bad hex":                 "ECHO \"\\xzz\\x4\"\r\n",
	"quote inside a word":     "ECHO a\"b c\"\r\n",
	"empty quotes":            "ECHO \"\"\r\nECHO ''\r\n",
	"empty lines":             "\r\n\n  \r\nPING\r\n",
	"wrong arity":             "GET\r\nSET a\r\nPING a b\r\nECHO\r\nMGET\r\nDEL\r\nMSET a\r\nMSET a 1 b\r\nEXISTS\r\n",
	"unknown":                 "FOO\r\nfoo bar baz\r\n*2\r\n$3\r\nf\r\n\r\n$1\r\na\r\n",
	"empty name":              "*1\r\n$0\r\n\r\nPING\r\n",
	"quit":                    "SET x 1\r\nGET x\r\nQUIT\r\nSET x 2\r\n",
	"quit in a pipeline":      "*2\r\n$3\r\nGET\r\n$1\r\nq\r\n*1\r\n$4\r\nQUIT\r\n*3\r\n$3\r\nSET\r\n$1\r\nq\r\n$1\r\n1\r\n",
	"half a command":          "PING\r\n*2\r\n$3\r\nGET\r\n$1\r\n",
	"case":                    "pInG\r\nsElEcT 0\r\n",
	"select":                  "SELECT a\r\nSELECT -1\r\nSELECT\r\nSELECT 99999999999\r\n",
	"client":                  "CLIENT SETNAME a\r\nCLIENT GETNAME\r\nCLIENT SETNAME \"a b\"\r\nCLIENT\r\nCLIENT GETNAME x\r\nCLIENT SETNAME\r\n",
	"auth":                    "AUTH\r\nAUTH a b c\r\nAUTH secret\r\nAUTH nobody secret\r\nPING\r\n",
	"hello":                   "HELLO x\r\nHELLO 2 FOO\r\nHELLO 2 AUTH nobody secret\r\nPING\r\n",
	"reset":                   "CLIENT SETNAME a\r\nRESET\r\nCLIENT GETNAME\r\nRESET a\r\n",
	"endless inline":          strings.Repeat("a", 70000),
	"endless inline spaces":   strings.Repeat("a ", 40000),
	"endless count":           "*" + strings.Repeat("1", 70000),
	"endless length":          "*1\r\n$" + strings.Repeat("1", 70000),
	"endless behind NUL":      "PING\x00\r\n" + strings.Repeat("PING\r\n", 12000),
	"long inline":             "ECHO " + strings.Repeat("a", 60000) + "\r\nPING\r\n",
}

func TestHostileBytesAnsweredAsRedisDoes(t *testing.T) {
	plain := redistest.Start(t)
	l := proxytest.Start(t, []string{plain.Addr})
	bystander := l.Dial(t)
	bystander.Want(t, "+OK\r\n", "SET", "bystander", "1")
	for name, raw := range hostile {
		t.Run(name, func(t *testing.T) {
			_ = plain.Client().FlushAll(t.Context()).Err()
			redis := proxytest.Exchange(t, plain.Addr, raw)
			_ = plain.Client().FlushAll(t.Context()).Err()
			if got := proxytest.Exchange(t, l.Addr, raw); got != redis {
				t.Errorf("leash: %.300q\nredis: %.300q", got, redis)
			}
		})
	}
	bystander.Want(t, "+PONG\r\n", "PING")
	bystander.Want(t, "+OK\r\n", "SET", "bystander", "2")
}

func TestTooManyArguments(t *testing.T) {
	plain := redistest.Start(t)
	l := proxytest.Start(t, []string{plain.Addr})
	got := proxytest.Exchange(t, l.Addr, "*2147483647\r\n")
	if got != "-ERR Protocol error: more arguments than --max-args allows\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestRandomBytes sends random bytes that often look like the protocol, and compares Leash with
// Redis.
func TestRandomBytes(t *testing.T) {
	plain := redistest.Start(t)
	l := proxytest.Start(t, []string{plain.Addr})
	bystander := l.Dial(t)
	bystander.Want(t, "+OK\r\n", "SET", "k", "v")
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"*", "$", "\r\n", "\n", "\r", "1", "2", "3", "-1", "0", "GET", "PING", "ECHO", "\x00", "\"",
		"'", "\\x41", " ", "a", "\xff", "*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n", "PING\r\n"}
	for range 300 {
		var b strings.Builder
		for range 1 + rng.IntN(60) {
			b.WriteString(words[rng.IntN(len(words))])
		}
		raw := b.String()
		redis, got := proxytest.Exchange(t, plain.Addr, raw), proxytest.Exchange(t, l.Addr, raw)
		if got != redis {
			t.Fatalf("%q\nleash: %q\nredis: %q", raw, got, redis)
		}
	}
	megabyte := make([]byte, 1<<20)
	for i := range megabyte {
		megabyte[i] = byte(rng.Uint32())
	}
	proxytest.Exchange(t, l.Addr, string(megabyte))
	bystander.Want(t, "$1\r\nv\r\n", "GET", "k")
}

// TestPipelineSplitEverywhere sends one pipeline in two pieces, cut at every byte.
func TestPipelineSplitEverywhere(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	raw := redistest.Command("MSET", "a", "1", "b", "2", "c", "3") + redistest.Command("GET", "a") +
		redistest.Command("MGET", "c", "b", "nope", "a") + "PING\r\n" + redistest.Command("INCR", "n") +
		redistest.Command("DEL", "a", "b", "n") + redistest.Command("LPUSH", "a", "\r\n$1\r\n") +
		redistest.Command("LRANGE", "a", "0", "-1") + redistest.Command("DEL", "a") + redistest.Command("ECHO", "end")
	wanted := "+OK\r\n$1\r\n1\r\n*4\r\n$1\r\n3\r\n$1\r\n2\r\n$-1\r\n$1\r\n1\r\n+PONG\r\n:1\r\n:3\r\n:1\r\n*1\r\n$6\r\n\r\n$1\r\n\r\n:1\r\n$3\r\nend\r\n"
	for cut := range len(raw) {
		if got := proxytest.ExchangePieces(t, l.Addr, raw, cut); got != wanted {
			t.Fatalf("cut at %d: got %q, want %q", cut, got, wanted)
		}
	}
}

func TestHalfCloseAndQuit(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "a", "1")
	if got := proxytest.Exchange(t, l.Addr, redistest.Command("GET", "a")); got != "$1\r\n1\r\n" {
		t.Errorf("GET then half-close: %q", got)
	}
	got := proxytest.Exchange(t, l.Addr, redistest.Command("GET", "a")+redistest.Command("QUIT")+
		redistest.Command("SET", "a", "2"))
	if got != "$1\r\n1\r\n+OK\r\n" {
		t.Errorf("GET, QUIT, SET: %q", got)
	}
	client.Want(t, "$1\r\n1\r\n", "GET", "a")
}

// TestUpstreamBulkLimit checks that an argument that is too large for Redis is never sent,
// because it would end a shared link.
func TestUpstreamBulkLimit(t *testing.T) {
	plain := redistest.Start(t, "--proto-max-bulk-len", "1mb")
	l := proxytest.Start(t, []string{plain.Addr})
	bystander := l.Dial(t)
	bystander.Want(t, "+OK\r\n", "SET", "k", strings.Repeat("v", 1<<20))
	for _, raw := range []string{redistest.Command("SET", "k", strings.Repeat("v", 1<<20+1)),
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n"} {
		if got, redis := proxytest.Exchange(t, l.Addr, raw), proxytest.Exchange(t, plain.Addr, raw); got != redis {
			t.Errorf("leash: %q\nredis: %q", got, redis)
		}
	}
	bystander.Want(t, ":1048576\r\n", "STRLEN", "k")
	if strings.Contains(l.Logs.String(), "connection to redis lost") {
		t.Error("a link was lost")
	}
}

// TestManyArguments checks that commands larger than the read buffer work, wherever they end.
func TestManyArguments(t *testing.T) {
	plain := redistest.Start(t)
	l := proxytest.Start(t, []string{plain.Addr})
	client := l.Dial(t)
	for size := 1; size < 40; size++ {
		count := 90_000 / (size + 8)
		args := append([]string{"DEL"}, slices.Repeat([]string{strings.Repeat("k", size)}, count)...)
		raw := strings.Repeat(redistest.Command("SET", strings.Repeat("k", size), strings.Repeat("v", 1000)), 90) +
			redistest.Command(args...) + redistest.Command("ECHO", "end")
		if err := client.Send(raw); err != nil {
			t.Fatal(err)
		}
		for i := range 92 {
			wanted := "+OK\r\n"
			if i == 90 {
				wanted = ":1\r\n"
			} else if i == 91 {
				wanted = "$3\r\nend\r\n"
			}
			if got, err := client.Read(); got != wanted {
				t.Fatalf("size %d, reply %d: %q %v", size, i, got, err)
			}
		}
	}
	client.Want(t, ":100000\r\n", append([]string{"SADD", "s"}, numbers(100_000)...)...)
}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// TestLimitsBeforeAuthentication checks that the limits for clients without authentication are
// those of Redis.
func TestLimitsBeforeAuthentication(t *testing.T) {
	redis := proxytest.Secured(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.WithPassword)
	for _, raw := range []string{
		"*11\r\n", "*10\r\n$16385\r\n", "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
		redistest.Command("GET", strings.Repeat("k", 16384)),
		redistest.Command("AUTH", "secret") + redistest.Command(append([]string{"DEL"}, numbers(20)...)...),
		"PING\r\n", "NOSUCH a\r\nGET\r\n",
	} {
		if got, want := proxytest.Exchange(t, l.Addr, raw), proxytest.Exchange(t, redis.Addr, raw); got != want {
			t.Errorf("%.60q\nleash: %.200q\nredis: %.200q", raw, got, want)
		}
	}
}
