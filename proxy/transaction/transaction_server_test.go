package transaction_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// transcripts are sequences of commands, one a line. Leash must give the replies of a single Redis,
// pipelined or not, in both protocols.
var transcripts = map[string]string{
	"executed":             "MULTI\nSET {k}a 1\nINCR {k}a\nGET {k}a\nEXEC\nGET {k}a",
	"keyless first":        "MULTI\nPING\nECHO hi\nSET {k}a 1\nTIME x\nEXEC",
	"keyless only":         "MULTI\nPING\nEXEC\nPING",
	"empty":                "MULTI\nEXEC",
	"discarded":            "SET {k}a 1\nMULTI\nSET {k}a 2\nDISCARD\nGET {k}a",
	"nothing to discard":   "DISCARD\nEXEC\nUNWATCH\nEXEC x\nDISCARD x\nMULTI x",
	"arity in the queue":   "MULTI\nGET\nSET {k}a 1\nEXEC\nGET {k}a",
	"unknown in the queue": "MULTI\nNOSUCH a b\nSET {k}a 1\nEXEC\nGET {k}a",
	"unknown sub":          "MULTI\nCLIENT NOSUCH\nEXEC",
	"error at run time":    "SET {k}a x\nMULTI\nINCR {k}a\nSET {k}b 1\nLPUSH {k}a 1\nEXEC\nGET {k}b",
	"nested":               "MULTI\nMULTI\nSET {k}a 1\nEXEC",
	"watch inside":         "MULTI\nWATCH {k}a\nSET {k}a 1\nEXEC",
	"exec arity":           "MULTI\nSET {k}a 1\nEXEC x\nEXEC",
	"discard arity":        "MULTI\nSET {k}a 1\nDISCARD x\nEXEC\nEXEC",
	"watch untouched":      "SET {k}a 1\nWATCH {k}a {k}b\nGET {k}a\nMULTI\nINCR {k}a\nEXEC",
	"watch touched":        "WATCH {k}a\nSET {k}a 1\nMULTI\nINCR {k}a\nEXEC\nGET {k}a\nMULTI\nINCR {k}a\nEXEC",
	"watch forgotten":      "WATCH {k}a\nSET {k}a 1\nUNWATCH\nMULTI\nINCR {k}a\nEXEC",
	"watch then discard":   "WATCH {k}a\nMULTI\nDISCARD\nSET {k}a 1\nMULTI\nINCR {k}a\nEXEC",
	"watch twice":          "WATCH {k}a\nWATCH {k}b\nSET {k}b 1\nMULTI\nINCR {k}a\nEXEC",
	"watch arity":          "WATCH\nMULTI\nWATCH\nEXEC",
	"exec without multi":   "WATCH {k}a\nSET {k}a 1\nEXEC\nMULTI\nGET {k}a\nEXEC",
	"reset":                "MULTI\nSET {k}a 1\nRESET\nGET {k}a\nEXEC",
	"reset arity":          "MULTI\nRESET x\nEXEC",
	"reset watch":          "WATCH {k}a\nRESET\nSET {k}a 1\nMULTI\nINCR {k}a\nEXEC",
	"quit":                 "MULTI\nSET {k}a 1\nQUIT",
	"blocking inside":      "MULTI\nBLPOP {k}l 0\nBRPOPLPUSH {k}l {k}m 0\nXREAD BLOCK 0 STREAMS {k}s $\nEXEC",
	"client inside":        "MULTI\nCLIENT SETNAME bob\nCLIENT GETNAME\nCLIENT SETNAME two\\x20words\nEXEC\nCLIENT GETNAME",
	"hello inside":         "MULTI\nHELLO 9\nHELLO x\nHGETALL {k}h\nEXEC",
	"scripts inside":       "MULTI\nEVAL return{KEYS[1],redis.call('incr',KEYS[1])} 1 {k}a\nEVALSHA 0000000000000000000000000000000000000000 1 {k}a\nEXEC",
	"many keys inside":     "MULTI\nMSET {k}a 1 {k}b 2\nMGET {k}a {k}b {k}c\nDEL {k}a {k}b\nEXISTS {k}a\nEXEC",
	"auth inside":          "MULTI\nAUTH wrong\nAUTH default wrong\nAUTH a b c\nEXEC",
	"select inside":        "MULTI\nSELECT 99\nSELECT x\nSELECT 0\nSET {k}a 1\nEXEC\nGET {k}a",
	"subscribe inside":     "MULTI\nSUBSCRIBE ch\nPING\nEXEC\nGET {k}a\nPING\nUNSUBSCRIBE\nPING",
	"two channels inside":  "MULTI\nPSUBSCRIBE a* b*\nEXEC\nPING",
	"unsubscribe inside":   "MULTI\nUNSUBSCRIBE\nGET {k}a\nEXEC\nPING",
	"pubsub inside":        "MULTI\nPUBSUB NUMSUB nobody\nPUBLISH nobody m\nEXEC",
	"reply off before":     "CLIENT REPLY OFF\nMULTI\nSET {k}a 1\nEXEC\nGET {k}a\nCLIENT REPLY ON\nGET {k}a",
	"skip before":          "CLIENT REPLY SKIP\nMULTI\nSET {k}a 1\nCLIENT REPLY SKIP\nSET {k}b 1\nEXEC\nGET {k}b",
}

// TestTransactionsAsRedis compares every transcript with a single Redis.
func TestTransactionsAsRedis(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		args := []string{}
		cluster := len(nodes) > 1
		if cluster { // whose SELECT has words of its own
			args = append(args, "--databases", "1")
		}
		plain := redistest.Start(t, args...)
		for name, text := range transcripts {
			if cluster && name == "select inside" {
				continue // another test has it
			}
			for _, proto := range []string{"2", "3"} {
				for _, pipelined := range []bool{true, false} {
					if !pipelined && strings.Contains(text, "CLIENT REPLY") {
						continue // some lines have no reply to wait for
					}
					t.Run(fmt.Sprint(name, " RESP", proto, " pipelined ", pipelined), func(t *testing.T) {
						redis := proxytest.RunTranscript(t, plain.Addr, proto, text, pipelined)
						got := proxytest.RunTranscript(t, l.Addr, proto, text, pipelined)
						if got, redis = impersonal(got), impersonal(redis); got != redis {
							t.Fatalf("leash: %q\nredis: %q", got, redis)
						}
					})
				}
			}
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// impersonal hides what HELLO reports about the connection.
func impersonal(replies string) string {
	return regexp.MustCompile(`\$2\r\nid\r\n:\d+\r\n\$4\r\nmode\r\n\$\d+\r\n\w+\r\n`).ReplaceAllString(replies, "")
}

// TestTransactionSelects checks that SELECT inside MULTI takes effect at EXEC, and that the pinned
// connection is in the right database for its next user.
func TestTransactionSelects(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c := l.Dial(t)
	for range 3 {
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "SELECT", "3")
		c.Want(t, "+QUEUED\r\n", "SET", "k", "three")
		c.Want(t, "*2\r\n+OK\r\n+OK\r\n", "EXEC")
		c.Want(t, "$5\r\nthree\r\n", "GET", "k")
		other := l.Dial(t)
		other.Want(t, "+OK\r\n", "MULTI")
		other.Want(t, "+QUEUED\r\n", "GET", "k")
		other.Want(t, "*1\r\n$-1\r\n", "EXEC")
		c.Want(t, "+OK\r\n", "SELECT", "0")
		c.Want(t, "$-1\r\n", "GET", "k")
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "SELECT", "3")
		c.Want(t, "+OK\r\n", "DISCARD")
		c.Want(t, "$-1\r\n", "GET", "k")
	}
	c.Want(t, "+OK\r\n", "WATCH", "w")
	c.Want(t, "+OK\r\n", "SELECT", "3")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "GET", "k")
	c.Want(t, "*1\r\n$5\r\nthree\r\n", "EXEC")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestTransactionChangesTheSession checks that HELLO and AUTH inside MULTI take effect at EXEC, on
// the connection and in the session.
func TestTransactionChangesTheSession(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		for _, n := range nodes {
			if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all",
				"-incr").Err(); err != nil {
				t.Fatal(err)
			}
		}
		c := l.Dial(t)
		c.Want(t, ":1\r\n", "HSET", "h", "f", "v")
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "HELLO", "3")
		c.Want(t, "+QUEUED\r\n", "HGETALL", "h")
		if got := c.Reply(t, "EXEC"); !strings.HasPrefix(got, "*2\r\n%7\r\n") ||
			!strings.HasSuffix(got, "%1\r\n$1\r\nf\r\n$1\r\nv\r\n") {
			t.Fatalf("%q", got)
		}
		c.Want(t, "%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "HGETALL", "h")
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "AUTH", "bob", "pw")
		c.Want(t, "+QUEUED\r\n", "INCR", "n")
		c.Want(t, "+QUEUED\r\n", "GET", "n{n}")
		got := c.Reply(t, "EXEC")
		if cluster := len(nodes) > 1; cluster && !strings.HasPrefix(got, "-") || !cluster &&
			got != "*3\r\n+OK\r\n-NOPERM this user has no permissions to run the 'incr' command\r\n_\r\n" {
			// Redis checks the right to run a command, at EXEC too.
			t.Logf("EXEC: %q", got)
		}
		c.Want(t, "-NOPERM this user has no permissions to run the 'incr' command\r\n", "INCR", "n")
		c.Want(t, "$3\r\nbob\r\n", "ACL", "WHOAMI")
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestTransactionOfTwoSlots checks that a transaction over two slots gets an error at EXEC, because
// Redis Cluster cannot run it.
func TestTransactionOfTwoSlots(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs())
	c := l.Dial(t)
	a, b := redistest.KeyIn(1, "k"), redistest.KeyIn(16000, "k")
	const cross = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "SET", a, "1")
	c.Want(t, "+QUEUED\r\n", "SET", b, "1")
	c.Want(t, "+QUEUED\r\n", "SET", a, "2")
	c.Want(t, cross, "EXEC")
	c.Want(t, "$-1\r\n", "GET", a)
	c.Want(t, cross, "WATCH", a, b)
	c.Want(t, "+OK\r\n", "WATCH", a)
	c.Want(t, cross, "WATCH", b)
	c.Want(t, "+OK\r\n", "SET", b, "1")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "EXISTS", a)
	c.Want(t, "*1\r\n:0\r\n", "EXEC")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "-ERR 'dbsize' is not allowed inside MULTI on a cluster: no transaction spans several nodes\r\n",
		"DBSIZE")
	c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "-ERR 'LOCK.ACQUIRE' is not allowed inside MULTI: a lock is not part of a transaction\r\n",
		"LOCK.ACQUIRE", "x")
	c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	c.Want(t, "+PONG\r\n", "PING")
}

// TestTransactionOverSlotsAnswersAsANodeWithAllSlots compares with a cluster of one node.
func TestTransactionOverSlotsAnswersAsANodeWithAllSlots(t *testing.T) {
	t.Parallel()
	single := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	cluster := redistest.StartCluster(t)
	l := proxytest.Start(t, cluster.Addrs())
	for _, n := range slices.Concat(single.Nodes, cluster.Nodes) {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all",
			"-incr").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, commands := range []string{
		"SET k1 v|SET k2 v|EXEC", "SET k1 v|GET k1|SET k2 v|GET k1|GET k3|EXEC",
		"PING|SET k1 v|PING|SET k2 v|PUBLISH c m|EXEC",
		"SET k1 v|SET k2 v|DISCARD", "SET k1 v|SET k2 v|RESET", "SET k1 v|SET k2|EXEC",
		"SET k1|SET k2 v|SET k3 v|EXEC", "SET k1 v|SET k2 v|SET k3|EXEC",
		"SET k1 v|NOSUCH k2|SET k2 v|EXEC", "SET k1 v|RENAME k2 k3|EXEC", "SET k1 v|RENAME k2 k3|SET k4 v|EXEC",
		"SET k1 v|SET k2 v|RENAME k2 k3|EXEC",
		"RENAME k2 k3|SET k4 v|EXEC", "INCR k1|SET k2 v|EXEC", "SET k1 v|INCR k2|EXEC",
		"SET k1 v|SET k2 v|INCR k3|EXEC",
		"SET k1 v|WATCH k2|SET k2 v|EXEC", "SET k1 v|MULTI|SET k2 v|EXEC", "EVAL x 1 k1|EVAL x 1 k2|EXEC",
		"SPUBLISH k1 m|SPUBLISH k2 m|EXEC",
		"SET k1 v|CLIENT GETNAME|SET k2 v|EXEC", "SET k1 v|SET k2 v|EXEC EXEC",
	} {
		for _, pipelined := range []bool{false, true} {
			answers := func(addr string) string {
				c := proxytest.Dial(t, addr)
				defer c.Close()
				all := append(append([]string{"AUTH bob pw", "MULTI"}, strings.Split(commands, "|")...), "GET k1",
					"PING")
				raw, b := "", strings.Builder{}
				for _, command := range all {
					request := redistest.Command(strings.Fields(command)...)
					if raw += request; !pipelined {
						request, raw = raw, ""
						if err := c.Send(request); err != nil {
							t.Fatal(err)
						}
						reply, err := c.Read()
						if err != nil {
							t.Fatalf("%s: %v", command, err)
						}
						b.WriteString(reply)
					}
				}
				if pipelined {
					if err := c.Send(raw); err != nil {
						t.Fatal(err)
					}
					for range all {
						reply, err := c.Read()
						if err != nil {
							t.Fatal(err)
						}
						b.WriteString(reply)
					}
				}
				return b.String()
			}
			if got, want := answers(l.Addr), answers(single.Nodes[0].Addr); got != want {
				t.Errorf("%s (pipelined: %v):\ngot  %q\nwant %q", commands, pipelined, got, want)
			}
		}
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestContendedCounter checks that no increment is lost when sessions increment one counter with
// WATCH, GET, MULTI, SET and EXEC.
func TestContendedCounter(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		const sessions, rounds = 8, 40
		var wg sync.WaitGroup
		for range sessions {
			c := l.Dial(t)
			wg.Go(func() {
				for n := 0; n < rounds; {
					var reply string
					for _, cmd := range [][]string{{"WATCH", "n"}, {"GET", "n"}} {
						var err error
						if reply, err = c.Do(cmd...); err != nil {
							t.Error(err)
							return
						}
					}
					value := 0
					_, _ = fmt.Sscanf(reply, "$%d\r\n%d", new(int), &value)
					raw := redistest.Command("MULTI") + redistest.Command("SET", "n", fmt.Sprint(value+1)) +
						redistest.Command("EXEC")
					if err := c.Send(raw); err != nil {
						t.Error(err)
						return
					}
					for range 3 {
						var err error
						if reply, err = c.Read(); err != nil {
							t.Error(err)
							return
						}
					}
					switch reply {
					case "*1\r\n+OK\r\n":
						n++
					case "*-1\r\n":
					default:
						t.Errorf("EXEC: %q", reply)
						return
					}
				}
			})
		}
		wg.Wait()
		l.Dial(t).Want(t, fmt.Sprintf("$3\r\n%d\r\n", sessions*rounds), "GET", "n")
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}
