package program

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

// timeToLive is the watchdog timeout of the Leashes of a pair.
const timeToLive = 8 * time.Second

// ample is how long a test waits for an event. On a quiet machine, the event comes as soon as a
// time to live is over.
const ample = 60 * time.Second

// pair is two Leash processes in front of one cluster.
type pair struct {
	cluster *redistest.Cluster
	a, b    *leashtest.Leash
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{cluster: redistest.StartCluster(t, redistest.ClusterOptions{})}
	dir := t.TempDir()
	for _, l := range []**leashtest.Leash{&p.a, &p.b} {
		var err error
		*l, err = leashtest.Start(t.Context(), leashtest.Binary(t), dir,
			"--upstream", strings.Join(p.cluster.Addrs(), ","), "--watchdog-timeout", timeToLive.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*l).Kill)
	}
	return p
}

// restart starts a killed Leash again.
func restart(t *testing.T, l *leashtest.Leash) {
	t.Helper()
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// names are the keys in Redis whose names contain part, without token counters and tombstones.
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

// lockKind is a kind of lock, with the commands that use it, separated by ;. K is the key; K1, K2
// and K3 are several keys.
type lockKind struct {
	name string
	make string // creates it; "" if that is not necessary
	take string // by its holder
	wait string // by the waiter, without BLOCK
	give string // by its holder
	back string // by the waiter after its grant
}

var lockKinds = []lockKind{
	{"plain", "", "LOCK.ACQUIRE K", "LOCK.ACQUIRE K", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{"entered again", "", "LOCK.ACQUIRE K OWNER me; LOCK.ACQUIRE K OWNER me", "LOCK.ACQUIRE K OWNER you", "LOCK.RELEASE K ALL", "LOCK.RELEASE K"},
	{"reader", "", "LOCK.ACQUIRE K READ", "LOCK.ACQUIRE K WRITE", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{"writer", "", "LOCK.ACQUIRE K WRITE", "LOCK.ACQUIRE K READ", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{
		"writer that reads", "", "LOCK.ACQUIRE K WRITE OWNER me; LOCK.ACQUIRE K READ OWNER me", "LOCK.ACQUIRE K WRITE",
		"LOCK.RELEASE K WRITE; LOCK.RELEASE K READ", "LOCK.RELEASE K",
	},
	{"fair", "", "LOCK.ACQUIRE K FAIR", "LOCK.ACQUIRE K FAIR", "LOCK.RELEASE K", "LOCK.RELEASE K"},
	{ // the waiter for K2 already holds K1
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

// contended is a lock that a client of one Leash holds. A client of the other Leash waits for it.
type contended struct {
	lockKind
	t       *testing.T
	key     string
	pair    *pair
	holder  *redistest.TestClient
	certain time.Time // until when its holder may rely on it, by LOCK.TTL
	waiter  <-chan answer
	waits   *redistest.TestClient
}

// answer is a reply, and when it came.
type answer struct {
	reply string
	err   error
	at    time.Time
}

// hold takes a lock of each kind through one Leash, with options, and lets a client of the other
// Leash wait for it.
func (p *pair) hold(t *testing.T, through, other *leashtest.Leash, round, options string) (all []*contended) {
	t.Helper()
	for i, way := range lockKinds {
		h := &contended{lockKind: way, t: t, pair: p, key: round + string(rune('a'+i)), holder: redistest.Connect(t, through.Addr)}
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

func (h *contended) named(command string) []string {
	args := strings.Fields(command)
	for i, arg := range args {
		if arg[0] == 'K' {
			args[i] = h.key + arg[1:]
		}
	}
	return args
}

// run sends commands. No reply may be nil or an error.
func (h *contended) run(c *redistest.TestClient, commands string) {
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

// ask lets the holder ask by LOCK.TTL how long it may rely on the lock: on all its keys, or on as
// many as its quorum needs.
func (h *contended) ask() {
	h.t.Helper()
	var ends []time.Time
	for _, key := range h.named(h.give) {
		if !strings.HasPrefix(key, h.key) {
			continue
		}
		asked, reply := time.Now(), strings.TrimRight(h.holder.Do("LOCK.TTL", key), "\r\n")
		ms, err := strconv.Atoi(strings.TrimPrefix(reply, ":"))
		if err != nil {
			h.t.Fatalf("%s: LOCK.TTL was answered %q", h.name, reply)
		}
		if ms > 0 { // a permit has no LOCK.TTL
			ends = append(ends, asked.Add(time.Duration(ms)*time.Millisecond))
		}
	}
	if len(ends) == 0 {
		return
	}
	slices.SortFunc(ends, time.Time.Compare)
	spare := 0 // keys that may end before
	if strings.Contains(h.take, "QUORUM 2") {
		spare = len(ends) - 2
	}
	h.certain = ends[spare]
}

// block waits for the lock without a limit.
func (h *contended) block(c *redistest.TestClient) <-chan answer {
	c.Timeout = ample
	out := make(chan answer, 1)
	args := append(h.named(h.wait), "BLOCK", "0")
	go func() { // ends when there is an answer, or the connection has ended
		reply, err := c.Client.Do(args...)
		out <- answer{reply, err, time.Now()}
	}()
	return out
}

// gets checks that the waiter gets the lock, and releases it.
func (h *contended) gets(c *redistest.TestClient, waits <-chan answer) (at time.Time) {
	h.t.Helper()
	got := <-waits
	if got.err != nil || !granted(got.reply) {
		h.t.Fatalf("%s: the waiter got %q, %v", h.name, got.reply, got.err)
	}
	h.run(c, h.back)
	h.free()
	return got.at
}

// free checks that Redis has nothing left that the lock has added.
func (h *contended) free() {
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
			h.t.Fatalf("%s: Redis still has %q", h.name, names)
		}
	}
}
