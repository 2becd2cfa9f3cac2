package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// timeToLive is the watchdog timeout of a pair's Leashes.
const timeToLive = 8 * time.Second

// ample is how long a test waits for what a quiet machine has done as soon as a time to live is
// over.
const ample = 60 * time.Second

// pair is two Leashes, each a process, before one cluster.
type pair struct {
	cluster *redistest.Cluster
	a, b    *leashtest.Leash
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{cluster: redistest.StartCluster(t, redistest.ClusterOptions{})}
	dir := t.TempDir()
	binary, err := leashtest.Build(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []**leashtest.Leash{&p.a, &p.b} {
		*l, err = leashtest.Start(t.Context(), binary, dir,
			"--upstream", strings.Join(p.cluster.Addrs(), ","), "--watchdog-timeout", timeToLive.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*l).Kill)
	}
	return p
}

// restart lets a killed Leash run again.
func restart(t *testing.T, l *leashtest.Leash) {
	t.Helper()
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// names are the keys in Redis whose names have part in them, but token counters and the notes that
// are left for a time to live.
func (p *pair) names(t *testing.T, part string) (names []string) {
	t.Helper()
	for _, node := range p.cluster.Masters() {
		all, err := node.Client().Keys(context.Background(), "*"+part+"*").Result()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, all...)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "redisson_lock_token:") || strings.Contains(name, ":leash:")
	})
}

// wayToHold is a way to have something to oneself, as commands with ; between them. K is its name;
// K1, K2 and K3 are those of several.
type wayToHold struct {
	name string
	make string // how it comes to be; "" when it need not
	take string // by its holder
	wait string // by who waits for it, without BLOCK
	give string // by its holder
	back string // by who has waited
}

var waysToHold = []wayToHold{
	{"plain", "", "LOCK.ACQUIRE K", "LOCK.ACQUIRE K", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{"entered again", "", "LOCK.ACQUIRE K OWNER me; LOCK.ACQUIRE K OWNER me", "LOCK.ACQUIRE K OWNER you", "LOCK.RELEASE K ALL", "LOCK.RELEASE K"},
	{"reader", "", "LOCK.ACQUIRE K READ", "LOCK.ACQUIRE K WRITE", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{"writer", "", "LOCK.ACQUIRE K WRITE", "LOCK.ACQUIRE K READ", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{
		"writer that reads", "", "LOCK.ACQUIRE K WRITE OWNER me; LOCK.ACQUIRE K READ OWNER me", "LOCK.ACQUIRE K WRITE",
		"LOCK.RELEASE K WRITE; LOCK.RELEASE K READ", "LOCK.RELEASE K",
	},
	{"fair", "", "LOCK.ACQUIRE K FAIR", "LOCK.ACQUIRE K FAIR", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{ // who waits for K2 has K1 in hand
		"several", "", "LOCK.MACQUIRE 2 K2 K3", "LOCK.MACQUIRE 2 K2 K1", "LOCK.MRELEASE 2 K2 K3", "LOCK.MRELEASE 2 K1 K2",
	},
	{
		"quorum", "", "LOCK.MACQUIRE 3 K1 K2 K3 QUORUM 2", "LOCK.MACQUIRE 3 K3 K2 K1 QUORUM 2",
		"LOCK.MRELEASE 3 K1 K2 K3", "LOCK.MRELEASE 3 K1 K2 K3",
	},
	{"permit", "SEM.INIT K 1", "SEM.ACQUIRE K", "SEM.ACQUIRE K", "SEM.RELEASE K", "SEM.RELEASE K"},
	{
		"permits", "SEM.INIT K 3", "SEM.ACQUIRE K COUNT 2", "SEM.ACQUIRE K COUNT 2", "SEM.RELEASE K; SEM.RELEASE K",
		"SEM.RELEASE K; SEM.RELEASE K",
	},
}

// taken is something held by a client of one Leash, for which one of the other's waits.
type taken struct {
	wayToHold
	t       *testing.T
	key     string
	pair    *pair
	holder  *redistest.TestClient
	certain time.Time // until when its holder may rely on it, as far as it knows
	waiter  <-chan answer
	waits   *redistest.TestClient
}

// answer is a reply, and when it came.
type answer struct {
	reply string
	err   error
	at    time.Time
}

// hold takes something in each way through one Leash, with options, and lets a client of the other
// wait for it.
func (p *pair) hold(t *testing.T, through, other *leashtest.Leash, round, options string) (all []*taken) {
	t.Helper()
	for i, way := range waysToHold {
		h := &taken{wayToHold: way, t: t, pair: p, key: round + string(rune('a'+i)), holder: redistest.Connect(t, through.Addr)}
		h.run(h.holder, way.make)
		for command := range strings.SplitSeq(way.take, "; ") {
			h.run(h.holder, command+options)
		}
		h.waits = redistest.Connect(t, other.Addr)
		h.waiter = h.block(h.waits)
		all = append(all, h)
	}
	if err := other.AwaitInfo(ample, fmt.Sprint("waiters:", len(all))); err != nil {
		t.Fatal(err)
	}
	return all
}

func (h *taken) named(command string) []string {
	args := strings.Fields(command)
	for i, arg := range args {
		if arg[0] == 'K' {
			args[i] = h.key + arg[1:]
		}
	}
	return args
}

// run sends commands that must be answered with something other than nothing or an error.
func (h *taken) run(c *redistest.TestClient, commands string) {
	h.t.Helper()
	for command := range strings.SplitSeq(commands, "; ") {
		if command == "" {
			continue
		}
		if reply := c.Do(h.named(command)...); !granted(reply) {
			h.t.Fatalf("%s: %q was answered %q", h.name, command, reply)
		}
	}
}

func granted(reply string) bool {
	return !strings.HasPrefix(reply, "-") && !strings.HasPrefix(reply, "$-1") && !strings.HasPrefix(reply, "*-1")
}

// ask lets the holder of a lock ask for how long it may rely on it.
func (h *taken) ask() {
	h.t.Helper()
	asked, words := time.Now(), h.named(h.give)
	key := words[slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, h.key) })]
	reply := strings.TrimRight(h.holder.Do("LOCK.TTL", key), "\r\n")
	ms, err := strconv.Atoi(strings.TrimPrefix(reply, ":"))
	if err != nil {
		h.t.Fatalf("%s: LOCK.TTL was answered %q", h.name, reply)
	}
	if ms > 0 { // a permit is no lock
		h.certain = asked.Add(time.Duration(ms) * time.Millisecond)
	}
}

// block waits for what is held, as long as it takes.
func (h *taken) block(c *redistest.TestClient) <-chan answer {
	c.Timeout = ample
	out := make(chan answer, 1)
	args := append(h.named(h.wait), "BLOCK", "0")
	go func() { // ends when there is an answer, or the connection has ended
		reply, err := c.Client.Do(args...)
		out <- answer{reply, err, time.Now()}
	}()
	return out
}

// gets sees that who waits gets what was held, and then gives it back.
func (h *taken) gets(c *redistest.TestClient, waits <-chan answer) (at time.Time) {
	h.t.Helper()
	got := <-waits
	if got.err != nil || !granted(got.reply) {
		h.t.Fatalf("%s: who waits was answered %q, %v", h.name, got.reply, got.err)
	}
	h.run(c, h.back)
	h.free()
	return got.at
}

// free sees that nothing is left in Redis but what was there before anybody held anything.
func (h *taken) free() {
	h.t.Helper()
	most := 0
	if h.make != "" {
		most = 1
	}
	for deadline := time.Now().Add(ample); ; <-time.After(20 * time.Millisecond) {
		names := h.pair.names(h.t, h.key)
		if len(names) <= most {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: there is still %q", h.name, names)
		}
	}
}
