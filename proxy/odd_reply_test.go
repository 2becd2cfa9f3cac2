package proxy_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/guard"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// oddReplies are replies that no server sends to any command.
var oddReplies = map[string]string{
	"a line without a CR":       ":\n",
	"a bulk string of 10 TB":    "$9999999999999\r\n",
	"an array of two billion":   "*2147483647\r\n",
	"a negative count":          "*-5\r\n",
	"a number out of range":     ":99999999999999999999\r\n",
	"an array in arrays":        strings.Repeat("*1\r\n", 100_000) + ":1\r\n",
	"a map where there is none": "%1\r\n+a\r\n:1\r\n",
	"an empty array":            "*0\r\n",
	"nil":                       "$-1\r\n",
	"the greatest integer":      ":9223372036854775807\r\n",
	"another text":              "+odd\r\n",
	"a slot that is none":       "-MOVED 99999 127.0.0.1:1\r\n",
	"a negative slot":           "-MOVED -5 127.0.0.1:1\r\n",
}

// TestOneOddReply checks that one wrong reply to any command that Leash sends or
// relays causes no panic. Every client gets an answer, and everything works once Redis answers
// correctly.
func TestOneOddReply(t *testing.T) {
	for _, names := range [][]string{
		{"CLIENT"}, {"EVALSHA", "EVAL"}, {"PING"}, {"HELLO"}, {"SUBSCRIBE"}, {"MULTI"}, {"EXEC"},
		{"MGET", "SCAN", "BLPOP"},
		{"CLUSTER", "INFO", "HGET", "HLEN", "ACL"}, {"PUBSUB", "SCRIPT", "WAIT", "SELECT", "CONFIG"},
	} {
		name := strings.Join(names, " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
			l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) {
				o.Upstream.UpstreamTimeout, o.Upstream.RedirectTimeout = 400*time.Millisecond, 200*time.Millisecond
				o.Locks = lockcmd.Config{UpstreamTimeout: 400 * time.Millisecond,
					WatchdogTimeout: 300 * time.Millisecond}
			})
			before := guard.Panics()
			for what, reply := range oddReplies {
				var faults []*faultproxy.Fault
				for _, n := range c.Masters() {
					faults = append(faults, n.Proxy.Replace(faultproxy.Named(names...), reply, faultproxy.Always()))
				}
				answeredAll(t, l, name+", "+what)
				for _, f := range faults {
					f.Disarm()
				}
				servesAgain(t, l, name+", "+what)
			}
			if n := guard.Panics() - before; n != 0 {
				t.Errorf("%d panics were recovered, see the log", n)
			}
		})
	}
}

// everyPath has commands for every way through Leash.
var everyPath = [][]string{
	{"SET", "a", "1"}, {"GET", "a"}, {"MGET", "a", "b", "c", "d"}, {"SCAN", "0"}, {"DBSIZE"}, {"INFO"},
	{"BLPOP", "nothing", "0.01"},
	{"LOCK.ACQUIRE", "lock", "WAIT", "50"}, {"LOCK.INFO", "lock"}, {"LOCK.LIST"}, {"LOCK.RELEASE", "lock"},
	{"LOCK.ACQUIRE", "rw", "READ"}, {"LOCK.RELEASE", "rw"},
	{"SEM.INIT", "sem", "2"}, {"SEM.ACQUIRE", "sem"}, {"SEM.INFO", "sem"}, {"SEM.TAKE", "counter"},
	{"LATCH.DOWN", "latch"},
	{"PUBSUB", "NUMSUB", "x"}, {"SCRIPT", "EXISTS", "x"}, {"WAIT", "0", "10"}, {"COMMAND", "COUNT"}, {"MULTI"},
	{"GET", "a"}, {"EXEC"}, {"CLIENT", "TRACKING", "ON"},
	{"SUBSCRIBE", "channel"},
}

// answeredAll sends a command on every path. Each must get a reply or the connection must end.
func answeredAll(t *testing.T, l *proxytest.Leash, when string) {
	t.Helper()
	c := l.Dial(t)
	c.Timeout = 20 * time.Second
	for _, args := range everyPath {
		if _, err := c.Do(args...); err != nil {
			if strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: %q was not answered", when, args)
			}
			c.Close()
			c = l.Dial(t)
			c.Timeout = 20 * time.Second
		}
	}
	c.Close()
}

// servesAgain waits until commands of every kind get correct replies.
func servesAgain(t *testing.T, l *proxytest.Leash, when string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c := l.Dial(t)
		got := ""
		for _, args := range [][]string{{"SET", "a", "1"}, {"MGET", "a", "{a}b"}, {"BLPOP", "nothing", "0.01"},
			{"LOCK.ACQUIRE", "again"}, {"LOCK.RELEASE", "again"}, {"SUBSCRIBE", "channel"}} {
			reply, err := c.Do(args...)
			if err != nil {
				reply = err.Error()
			}
			got += reply[:1]
		}
		c.Close()
		switch {
		case got == "+**::*":
			return
		case time.Now().After(end):
			t.Errorf("%s: commands still fail: %q", when, got)
			return
		}
	}
}
