package proxy

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// randomCommand makes a command whose reply depends on nothing but the
// commands before it: any type, often the wrong one, sometimes too short.
func randomCommand(rng *rand.Rand) []string {
	key := func() string { return randomKey(rng) }
	word := func() string { return randomWord(rng) }
	num := func() string { return strconv.Itoa(rng.IntN(40) - 10) }
	forms := [...]func() []string{
		func() []string { return []string{"SET", key(), word()} },
		func() []string { return []string{"SET", key(), num(), "XX", "GET"} },
		func() []string { return []string{"GET", key()} },
		func() []string { return []string{"GETDEL", key()} },
		func() []string { return []string{"INCR", key()} },
		func() []string { return []string{"INCRBYFLOAT", key(), "1.5"} },
		func() []string { return []string{"APPEND", key(), word()} },
		func() []string { return []string{"GETRANGE", key(), num(), num()} },
		func() []string { return []string{"SETRANGE", key(), num(), word()} },
		func() []string { return []string{"STRLEN", key()} },
		func() []string { return []string{"SETBIT", key(), num(), "1"} },
		func() []string { return []string{"BITCOUNT", key()} },
		func() []string { return append([]string{"MGET"}, several(rng, key)...) },
		func() []string { return append([]string{"MSET"}, several(rng, key, word)...) },
		func() []string { return append([]string{"DEL"}, several(rng, key)...) },
		func() []string { return append([]string{"UNLINK"}, several(rng, key)...) },
		func() []string { return append([]string{"EXISTS"}, several(rng, key)...) },
		func() []string { return append([]string{"TOUCH"}, several(rng, key)...) },
		func() []string { return []string{"MSET", key(), word(), key()} },
		func() []string { return []string{"LPUSH", key(), word(), num()} },
		func() []string { return []string{"RPOP", key(), "2"} },
		func() []string { return []string{"LRANGE", key(), num(), num()} },
		func() []string { return []string{"LINSERT", key(), "BEFORE", num(), word()} },
		func() []string { return []string{"LPOS", key(), num()} },
		func() []string { return []string{"HSET", key(), num(), num()} },
		func() []string { return []string{"HGET", key(), num()} },
		func() []string { return []string{"HMGET", key(), num(), num()} },
		func() []string { return []string{"HINCRBY", key(), num(), num()} },
		func() []string { return []string{"HGETALL", key()} },
		func() []string { return []string{"SADD", key(), num(), num()} },
		func() []string { return []string{"SMISMEMBER", key(), num(), num()} },
		func() []string { return []string{"SREM", key(), num()} },
		func() []string { return []string{"SCARD", key()} },
		func() []string { return []string{"ZADD", key(), num(), word()} },
		func() []string { return []string{"ZINCRBY", key(), num(), word()} },
		func() []string { return []string{"ZRANGE", key(), num(), num(), "WITHSCORES"} },
		func() []string { return []string{"ZRANGEBYSCORE", key(), num(), "+inf", "LIMIT", "0", "3"} },
		func() []string { return []string{"ZPOPMIN", key()} },
		func() []string { return []string{"XADD", key(), "MAXLEN", "20", num() + "-" + num(), "f", word()} },
		func() []string { return []string{"XRANGE", key(), "-", "+", "COUNT", "3"} },
		func() []string { return []string{"XLEN", key()} },
		func() []string { return []string{"XREAD", "COUNT", "2", "STREAMS", key(), "0"} },
		func() []string { return []string{"PFADD", key(), word(), word()} },
		func() []string { return []string{"PFCOUNT", key()} },
		func() []string { return []string{"GEOADD", key(), "13.361389", "38.115556", word()} },
		func() []string { return []string{"GEOPOS", key(), word()} },
		func() []string { return []string{"TYPE", key()} },
		func() []string { return []string{"EXPIRE", key(), "1000"} },
		func() []string { return []string{"PERSIST", key()} },
		func() []string { return []string{"TTL", key()} },
		func() []string { return []string{"OBJECT", "REFCOUNT", key()} },
		func() []string { return []string{"OBJECT", "NOPE", key()} },
		func() []string { return []string{"SORT", key(), "ALPHA"} },
		func() []string {
			return []string{"EVAL", "return {KEYS[1],ARGV[1],redis.call('EXISTS',KEYS[1])}", "1", key(), word()}
		},
		func() []string { return []string{"EVAL", "return redis.error_reply('MY error')", "0"} },
		func() []string { return []string{"EVALSHA", strings.Repeat("0", 40), "1", key()} },
		func() []string { k := "t" + num(); return []string{"RENAME", "{" + k + "}x", "{" + k + "}y"} },
		func() []string {
			k := "t" + num()
			return []string{"SINTERSTORE", "{" + k + "}z", "{" + k + "}x", "{" + k + "}y"}
		},
		func() []string { return []string{"PING", word()} },
		func() []string { return []string{"ECHO", word()} },
		func() []string { return []string{"NOSUCH", key(), word()} },
		func() []string { return []string{"GET"} },
		func() []string { return []string{"SET", key()} },
		func() []string { return []string{"HSET", key(), "odd"} },
		func() []string { return []string{"DBSIZE"} },
		func() []string { return []string{"SCRIPT", "LOAD", "return 1"} },
	}
	return forms[rng.IntN(len(forms))]()
}

func randomKey(rng *rand.Rand) string {
	switch rng.IntN(20) {
	case 0:
		return ""
	case 1:
		return "bin\x00\r\n" + string(rune('a'+rng.IntN(4)))
	case 2:
		return "{tag}" + strconv.Itoa(rng.IntN(4))
	}
	return "k" + strconv.Itoa(rng.IntN(60))
}

func randomWord(rng *rand.Rand) string {
	switch rng.IntN(12) {
	case 0:
		return ""
	case 1:
		return "\r\n$5\r\n\x00\xff"
	case 2:
		return strings.Repeat("w", rng.IntN(40000))
	}
	return "w" + strconv.Itoa(rng.IntN(30))
}

// several repeats what the makers give, one to six times.
func several(rng *rand.Rand, makers ...func() string) (args []string) {
	for range 1 + rng.IntN(6) {
		for _, m := range makers {
			args = append(args, m())
		}
	}
	return args
}

// compare sends the same commands to both in pipelines of random length,
// chunked at random for leash, and checks every reply byte for byte.
func compare(t *testing.T, plain, leash *redistest.Client, seed uint64, commands int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	for sent := 0; sent < commands; {
		var batch [][]string
		var raw strings.Builder
		for range 1 + rng.IntN(50) {
			cmd := randomCommand(rng)
			batch = append(batch, cmd)
			raw.WriteString(redistest.Command(cmd...))
		}
		sent += len(batch)
		chunks := make(chan error, 2)
		go func() { chunks <- plain.Send(raw.String()) }()
		cut := rng.IntN(raw.Len())
		go func() {
			err := leash.Send(raw.String()[:cut])
			if err == nil {
				err = leash.Send(raw.String()[cut:])
			}
			chunks <- err
		}()
		for i, cmd := range batch {
			redis, err := plain.Read()
			if err != nil {
				t.Fatalf("plain: %v", err)
			}
			got, err := leash.Read()
			if err != nil || got != redis {
				t.Fatalf("seed %d, command %d %.200q (pipeline %.500q)\nleash: %.300q %v\nredis: %.300q",
					seed, sent, cmd, batch[max(0, i-3):i], got, err, redis)
			}
		}
		for range 2 {
			if err := <-chunks; err != nil {
				t.Fatal(err)
			}
		}
	}
}

func seed(t *testing.T) uint64 {
	s := uint64(time.Now().UnixNano())
	t.Logf("seed %d", s)
	return s
}

// TestSameBytesAsOneRedis: 100,000 random commands through Leash before a
// cluster give the bytes that one plain Redis gives.
func TestSameBytesAsOneRedis(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, tc := range []struct {
		name     string
		addrs    []string
		commands int
		hello    string
		opt      func(*options)
	}{
		{"cluster", cluster.Addrs(), 100_000, "2", func(*options) {}},
		{"cluster RESP3", cluster.Addrs(), 50_000, "3", func(*options) {}},
		{"standalone", []string{redistest.Start(t).Addr}, 20_000, "2", func(*options) {}},
		{"standalone RESP3", []string{redistest.Start(t).Addr}, 20_000, "3", func(*options) {}},
		{"built-in command table", cluster.Addrs(), 20_000, "2", func(o *options) { o.embedded = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plain := redistest.Start(t)
			for _, n := range cluster.Nodes {
				if err := n.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			l := startLeash(t, tc.addrs, tc.opt)
			redis, client := dialAddr(t, plain.Addr), l.dial(t)
			for _, c := range []*redistest.Client{redis, client} {
				if got := do(t, c, "HELLO", tc.hello); !strings.Contains(got, "$5\r\nproto\r\n:"+tc.hello) {
					t.Fatalf("HELLO %s: %q", tc.hello, got)
				}
			}
			compare(t, redis, client, seed(t), tc.commands)
		})
	}
}

func TestLargeAndBinaryValues(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	binary := make([]byte, 16<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range binary {
		binary[i] = byte(rng.Uint32())
	}
	value := string(binary)
	for _, key := range []string{"big", "\x00\xff\r\n*3\r\n", strings.Repeat("k", 1<<20)} {
		want(t, client, "+OK\r\n", "SET", key, value)
		want(t, client, fmt.Sprintf("$%d\r\n%s\r\n", len(value), value), "GET", key)
	}
	reply := do(t, client, "MGET", "big", "none", "\x00\xff\r\n*3\r\n")
	if want := fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$-1\r\n$%d\r\n%s\r\n", len(value), value, len(value), value); reply != want {
		t.Errorf("MGET gave %d bytes, want %d", len(reply), len(want))
	}
}

// TestOneByteAtATime: a large value that comes byte by byte needs no more
// than its size.
func TestOneByteAtATime(t *testing.T) {
	plain := redistest.Start(t)
	l := startLeash(t, []string{plain.Addr})
	client := l.dial(t)
	raw := redistest.Command("SET", "k", strings.Repeat("v", 200<<10))
	for i := range len(raw) {
		if err := client.Send(raw[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := client.Read(); got != "+OK\r\n" || err != nil {
		t.Fatal(got, err)
	}
	want(t, client, ":204800\r\n", "STRLEN", "k")
}
