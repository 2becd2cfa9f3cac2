package proxy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/commandgen"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

const (
	epoch       = 4000             // commands after which both sides start empty again
	shrinkLimit = 90 * time.Second // of looking for fewer commands that show a difference
)

// ofAllNodes are commands that Leash refuses in a transaction because a transaction runs on one
// node.
var ofAllNodes = map[string]bool{
	"KEYS": true, "SCRIPT|LOAD": true, "SCRIPT|EXISTS": true, "SCRIPT|FLUSH": true, "FUNCTION|LOAD": true,
	"FUNCTION|DELETE": true,
	"FUNCTION|DUMP":   true, "FUNCTION|RESTORE": true, "FUNCTION|LIST": true, "FUNCTION|STATS": true,
	"FUNCTION|FLUSH": true,
}

// neverDone are commands that always fail in this test.
var neverDone = map[string]string{
	"OBJECT|FREQ": "wants a maxmemory-policy of LFU",
}

// TestSameBytesAsRedis checks that Leash's replies to random commands equal Redis's, byte for byte.
// comparison_test.go lists the exceptions. LEASH_SEED repeats the commands of an earlier run.
func TestSameBytesAsRedis(t *testing.T) {
	t.Parallel()
	often := []string{"--hz", "500"} // it looks so often for what has blocked long enough
	plain, behind := redistest.Start(t, often...), redistest.Start(t, often...)
	const never = time.Hour // no node must seem to have failed on a busy machine
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: never, Args: often})
	single := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1, NodeTimeout: never, Args: often})
	grammar, err := commandgen.Learn(t.Context(), plain.Client())
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, tc := range []struct {
		name     string
		plain    *redistest.Server
		behind   []*redistest.Server
		commands int
		resp     string
		gen      commandgen.Options
		opt      func(*proxytest.Options)
	}{
		{"standalone", plain, []*redistest.Server{behind}, 60_000, "2",
			commandgen.Options{Databases: 3, Transactions: true}, nil},
		{"standalone RESP3", plain, []*redistest.Server{behind}, 40_000, "3",
			commandgen.Options{Databases: 3, Transactions: true}, nil},
		// Redis without a cluster gives the results that a cluster over many slots should give.
		{"cluster", plain, servers(cluster), 40_000, "2", commandgen.Options{Keys: commandgen.OneSlot,
			Transactions: true}, nil},
		{"cluster RESP3", plain, servers(cluster), 30_000, "3",
			commandgen.Options{Keys: commandgen.OneSlot, Transactions: true}, nil},
		// A cluster of one node gives CROSSSLOT and the other refusals of a cluster.
		{"cluster as one node", single.Nodes[0].Server, servers(cluster), 30_000, "2",
			commandgen.Options{Keys: commandgen.OneSlotIfSplit, Transactions: true}, nil},
		{"built-in command table", plain, servers(cluster), 10_000, "2",
			commandgen.Options{Keys: commandgen.OneSlot, Transactions: true}, func(o *proxytest.Options) {
				o.Embedded = true
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var opts []func(*proxytest.Options)
			if tc.opt != nil {
				opts = append(opts, tc.opt)
			}
			d := &differential{plain: tc.plain.Addr, leash: proxytest.Start(t, addrs(tc.behind), opts...).Addr,
				cluster: len(tc.behind) > 1, resp: tc.resp, done: done}
			for _, s := range append(tc.behind, tc.plain) {
				d.servers = append(d.servers, s.Client())
			}
			tc.gen.Without = map[string]bool{
				"SCRIPT|FLUSH": d.cluster,                         // see open
				"MOVE":         tc.gen.Keys == commandgen.OneSlot, // which a cluster refuses
			}
			if d.cluster {
				tc.gen.NotQueued = ofAllNodes
			}
			s := proxytest.Seed(t)
			d.compare(t, rand.New(rand.NewPCG(s, 0)), grammar, tc.gen, tc.commands)
		})
	}
	for _, name := range grammar.Commands() {
		if done[name] == 0 && neverDone[name] == "" && !t.Failed() {
			t.Errorf("%s was never done without an error", name)
		}
	}
}

func servers(c *redistest.Cluster) (s []*redistest.Server) {
	for _, n := range c.Nodes {
		s = append(s, n.Server)
	}
	return s
}

func addrs(servers []*redistest.Server) (a []string) {
	for _, s := range servers {
		a = append(a, s.Addr)
	}
	return a
}

// differential sends the same commands to a plain Redis and to Leash.
type differential struct {
	plain, leash string
	servers      []*redis.Client // all that have data
	cluster      bool            // whether Leash is before one
	resp         string          // protocol version
	done         map[string]int  // commands that went well, by name
}

// compare sends random commands until enough of them have succeeded.
func (d *differential) compare(t *testing.T, rng *rand.Rand, grammar *commandgen.Grammar, opt commandgen.Options,
	commands int) {
	gen := grammar.New(rng, opt)
	for sent := 0; sent < commands; {
		p := d.open(t)
		var history [][]string
		for len(history) < epoch || gen.InTransaction() {
			var batch [][]string
			for range 1 + rng.IntN(60) {
				batch = append(batch, gen.Next())
			}
			history = append(history, batch...)
			if diff := p.exchange(batch, rng); diff != nil {
				before := history[:len(history)-len(batch)+diff.at+1]
				t.Fatalf("command %d: %.400s\n%v\n%s", sent+len(before), asTyped(before[len(before)-1]), diff,
					d.explain(t, before))
			}
		}
		if redis, leash := scanned(t, p.redis), scanned(t, p.leash); !slices.Equal(redis, leash) {
			t.Fatalf("SCAN finds\nredis: %.1000q\nleash: %.1000q", redis, leash)
		}
		sent += len(history)
		p.close()
	}
}

// scanned scans all keys. Redis may return some more than once.
func scanned(t *testing.T, c *redistest.Client) (keys []string) {
	t.Helper()
	for cursor := "0"; ; {
		reply := parseFrame(c.Reply(t, "SCAN", cursor, "COUNT", "7"))
		if len(reply.elems) != 2 {
			t.Fatalf("SCAN: %.200q", reply.raw)
		}
		for _, key := range reply.elems[1].elems {
			keys = append(keys, key.text)
		}
		if cursor = reply.elems[0].text; cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys)
		}
	}
}

// explain shrinks the commands before a difference and prints them.
func (d *differential) explain(t *testing.T, commands [][]string) string {
	replay := func(commands [][]string) *difference {
		p := d.open(t)
		defer p.close()
		return p.exchange(commands, nil)
	}
	if replay(commands) == nil {
		return "It does not happen again when all is sent at once: it depends on the timing or on the pieces of the request."
	}
	least := shrink(commands, shrinkLimit, func(c [][]string) bool { return replay(c) != nil })
	p := d.open(t)
	defer p.close()
	var b strings.Builder
	fmt.Fprintf(&b, "The least that shows it, RESP%s, with empty servers:\n", d.resp)
	for _, args := range least {
		diff := p.exchange([][]string{args}, nil)
		fmt.Fprintf(&b, "> %s\n", asTyped(args))
		if diff != nil {
			fmt.Fprintf(&b, "%v\n", diff)
			break
		}
	}
	return b.String()
}

// open empties all servers and opens new connections.
func (d *differential) open(t *testing.T) *connPair {
	t.Helper()
	for _, s := range d.servers {
		_, err := s.Pipelined(t.Context(), func(pair redis.Pipeliner) error {
			pair.FlushAll(t.Context())
			pair.ScriptFlush(t.Context())
			pair.FunctionFlush(t.Context())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := &connPair{d: d}
	for addr, c := range map[string]**redistest.Client{d.plain: &pair.redis, d.leash: &pair.leash} {
		var err error
		if *c, err = redistest.Dial(addr); err != nil {
			t.Fatal(err)
		}
		(*c).Timeout = 20 * time.Second
		if got := (*c).Reply(t, "HELLO", d.resp); !strings.Contains(got, "$5\r\nproto\r\n:"+d.resp) {
			t.Fatalf("HELLO %s: %q", d.resp, got)
		}
		(*c).Want(t, "+OK\r\n", "SCRIPT", "FLUSH")
		(*c).Want(t, "+OK\r\n", "FUNCTION", "FLUSH")
		// Only the node that ran EVAL knows the script until it is loaded elsewhere. EVALSHA gets
		// NOSCRIPT where loading would change the order of commands.
		for _, script := range commandgen.Scripts() {
			if d.cluster && (*c).Reply(t, "SCRIPT", "LOAD", script)[0] != '$' {
				t.Fatalf("cannot load %q", script)
			}
		}
	}
	return pair
}

// connPair is two connections that get the same commands.
type connPair struct {
	d            *differential
	redis, leash *redistest.Client
	comparison   comparison
}

func (p *connPair) close() {
	p.redis.Close()
	p.leash.Close()
}

// difference is two different replies to one command.
type difference struct {
	at           int
	redis, leash string
	err          error
}

func (d *difference) Error() string { return d.String() }

func (d *difference) String() string {
	if d.err != nil {
		return fmt.Sprintf("redis: %.400q\nleash: %.400q, %v", d.redis, d.leash, d.err)
	}
	return fmt.Sprintf("redis: %.400q\nleash: %.400q", d.redis, d.leash)
}

// exchange sends the commands to both connections and compares the replies. With rng, some are
// inline and Leash gets them in pieces.
func (p *connPair) exchange(batch [][]string, rng *rand.Rand) *difference {
	var raw strings.Builder
	for _, args := range batch {
		if line, ok := inline(args); ok && rng != nil && rng.IntN(20) == 0 {
			raw.WriteString(line)
		} else {
			raw.WriteString(redistest.Command(args...))
		}
	}
	sent := make(chan error, 2) // both
	go func() { sent <- p.redis.Send(raw.String()) }()
	go func() { sent <- sendPieces(p.leash, raw.String(), cuts(raw.Len(), rng)) }()
	for i, args := range batch {
		redis, redisErr := p.redis.Read()
		leash, leashErr := p.leash.Read()
		err := errors.Join(redisErr, leashErr)
		if err != nil || !p.comparison.equal(args, redis, leash) {
			p.close()
			<-sent
			<-sent
			return &difference{i, redis, leash, err}
		}
		p.count(args, redis)
	}
	if err := errors.Join(<-sent, <-sent); err != nil {
		return &difference{len(batch) - 1, "", "", err}
	}
	return nil
}

// count counts commands that succeeded.
func (p *connPair) count(args []string, reply string) {
	if reply[0] == '-' || reply == "+QUEUED\r\n" {
		return
	}
	name := strings.ToUpper(args[0])
	p.d.done[name]++
	if len(args) > 1 && len(args[1]) < 20 {
		p.d.done[name+"|"+strings.ToUpper(args[1])]++
	}
}

// inline returns the command as an inline command, if it is short enough.
func inline(args []string) (string, bool) {
	var words []string
	size := 0
	for _, arg := range args {
		words = append(words, quoteArg(arg))
		size += 4*len(arg) + 3
	}
	return strings.Join(words, " ") + "\r\n", size < 60<<10
}

// cuts returns places to cut n bytes: a few random ones, or all.
func cuts(n int, rng *rand.Rand) (at []int) {
	switch {
	case rng == nil:
		return nil
	case n < 2000 && rng.IntN(10) == 0:
		for i := range n {
			at = append(at, i)
		}
		return at
	}
	for last := 0; len(at) < 5; {
		last += rng.IntN(1 + n/3)
		if last >= n {
			break
		}
		at = append(at, last)
	}
	return at
}

func sendPieces(c *redistest.Client, raw string, cuts []int) error {
	last := 0
	for _, cut := range append(cuts, len(raw)) {
		if cut == last {
			continue
		}
		if err := c.Send(raw[last:cut]); err != nil {
			return err
		}
		last = cut
	}
	return nil
}
