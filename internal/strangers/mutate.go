package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/internal/redistest"
)

// seeds are valid streams. Strangers mutate and join them.
var seeds = sync.OnceValue(makeSeeds)

func makeSeeds() (all [][]byte) {
	for _, line := range []string{
		"PING", "ECHO fuzz:x", "SET fuzz:1 v", "GET fuzz:1", "MGET fuzz:1 fuzz:2 fuzz:3", "DEL fuzz:1 fuzz:2", "INCR fuzz:n",
		"MSET fuzz:a 1 fuzz:b 2", "LPUSH fuzz:l a b", "BLPOP fuzz:l 1", "BLMOVE fuzz:l fuzz:m LEFT RIGHT 1", "SCAN 0 MATCH fuzz:*",
		"XADD fuzz:s * a b", "XREAD BLOCK 50 STREAMS fuzz:s $", "MULTI", "EXEC", "DISCARD", "WATCH fuzz:1", "UNWATCH",
		"SUBSCRIBE fuzz:c", "PSUBSCRIBE fuzz:*", "SSUBSCRIBE fuzz:c", "UNSUBSCRIBE", "PUBLISH fuzz:c hello", "SPUBLISH fuzz:c x",
		"HELLO 3", "HELLO 2 SETNAME x", "HELLO 3 AUTH a b", "AUTH a b", "RESET", "QUIT", "SELECT 0", "CLIENT ID", "CLIENT INFO",
		"CLIENT SETNAME x", "CLIENT REPLY SKIP", "CLIENT TRACKING ON", "CLIENT NO-EVICT ON", "CLIENT PAUSE 100", "INFO leash",
		"CLIENT KILL TYPE normal", "CLIENT LIST", "COMMAND COUNT", "COMMAND DOCS get", "CLUSTER SLOTS", "CLUSTER SHARDS",
		"CLUSTER NODES", "OBJECT ENCODING fuzz:1", "SETRANGE fuzz:r 1000000 x", "GETRANGE fuzz:r 0 -1", "WAIT 0 10", "MONITOR",
		"DBSIZE", "RANDOMKEY", "DEBUG SLEEP 5", "FLUSHALL", "SHUTDOWN NOSAVE", "CONFIG GET *", "ACL WHOAMI", "SLOWLOG GET",
		"LOCK.ACQUIRE fuzz:lock BLOCK 50 OWNER me ID 1", "LOCK.ACQUIRE fuzz:lock LEASE 200 READ", "LOCK.ACQUIRE fuzz:lock FAIR",
		"LOCK.RELEASE fuzz:lock", "LOCK.RELEASE fuzz:lock ALL", "LOCK.EXTEND fuzz:lock 500", "LOCK.INFO fuzz:lock",
		"LOCK.CHECK fuzz:lock TOKEN 1", "LOCK.AWAITLOSS fuzz:lock BLOCK 20", "LOCK.ATTACH fuzz:lock OWNER me TOKEN 1",
		"LOCK.MACQUIRE 2 fuzz:{a}1 fuzz:{a}2 BLOCK 20", "LOCK.MRELEASE 2 fuzz:{a}1 fuzz:{a}2", "LOCK.NOTIFY ON", "LOCK.LIST",
		"LOCK.BREAK fuzz:lock", "LOCK.BREAK wanted:0", "LOCK.HELP", "SEM.ACQUIRE fuzz:sem 3 BLOCK 20", "SEM.INIT fuzz:sem 3",
		"SEM.RELEASE fuzz:sem 00", "SEM.TAKE fuzz:n 1 BLOCK 20", "LATCH.SET fuzz:latch 1", "LATCH.AWAIT fuzz:latch BLOCK 20",
		"LATCH.COUNTDOWN fuzz:latch", "LOCK.DRAIN", "LOCK.TTL fuzz:lock",
	} {
		all = append(all, []byte(redistest.Command(strings.Fields(line)...)), []byte(line+"\r\n"))
	}
	return append(all, hello(), []byte("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
}

// hello is the first message of a client with TLS.
var hello = sync.OnceValue(clientHello)

func clientHello() []byte {
	here, there := net.Pipe()
	go func() {
		_ = tls.Client(here, &tls.Config{ServerName: "127.0.0.1"}).Handshake()
		here.Close()
	}()
	_ = there.SetReadDeadline(time.Now().Add(time.Second))
	hello := make([]byte, 4096)
	n, _ := io.ReadAtLeast(there, hello, 100)
	there.Close()
	return hello[:n]
}

// odd are pieces that parsers may take amiss.
var odd = []string{"\r\n", "\n", "\x00", "*", "$", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", "*2147483647\r\n", "*1024\r\n",
	"$1048576\r\n", "$9223372036854775807\r\n", "-1", "9223372036854775808", "\"", "'", "\xff\xfe", "\x16\x03\x01\x40\x00", " "}

// random is what the stranger with a number takes its choices from.
func random(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }

// stream returns some seeds one after the other, most of them mutated.
func stream(r *rand.Rand) (all []byte) {
	for range 1 + r.IntN(6) {
		piece := slices.Clone(seeds()[r.IntN(len(seeds()))])
		for range r.IntN(4) {
			piece = mutate(r, piece)
		}
		all = append(all, piece...)
	}
	if r.IntN(50) == 0 {
		all = bytes.Repeat(all, 1+r.IntN(200))
	}
	return all
}

// mutate changes one thing. It may change b.
func mutate(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return []byte(odd[r.IntN(len(odd))])
	}
	i := r.IntN(len(b))
	switch r.IntN(7) {
	case 0:
		b[i] ^= 1 << r.IntN(8)
	case 1:
		b[i] = byte(r.Uint32())
	case 2:
		return slices.Delete(b, i, min(len(b), i+1+r.IntN(4)))
	case 3:
		return slices.Insert(b, i, []byte(odd[r.IntN(len(odd))])...)
	case 4:
		return b[:i]
	case 5:
		return slices.Insert(b, i, b[i:min(len(b), i+r.IntN(16))]...)
	default:
		if digit := bytes.IndexAny(b[i:], "0123456789"); digit >= 0 {
			b[i+digit] = "0123456789"[r.IntN(10)]
		}
	}
	return b
}
