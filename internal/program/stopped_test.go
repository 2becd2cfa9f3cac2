package program

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// stoppedWay is how a client writes under its lock, in two steps: before its Leash is stopped, and
// while it is stopped.
type stoppedWay struct {
	name     string
	acquire  string // K is the lock, D the data under it
	before   string // with ; between commands
	replies  int    // how many replies before has
	meantime string
	repeated int // how many times meantime is sent
}

var stoppedWays = []stoppedWay{
	{"pipeline", "LOCK.ACQUIRE K", "", 0, "INCR D", 40},
	{"reader", "LOCK.ACQUIRE K READ", "", 0, "INCR D", 5},
	{"writer", "LOCK.ACQUIRE K WRITE OWNER me", "", 0, "INCR D", 5},
	{"several", "LOCK.MACQUIRE 1 K", "", 0, "INCR D", 5},
	{"over slots", "LOCK.ACQUIRE K", "", 0, "MSET D 1 {other}D 1", 1},
	{"script", "LOCK.ACQUIRE K", "", 0, "EVAL return(redis.call('incr',KEYS[1])) 1 D", 5},
	{"transaction", "LOCK.ACQUIRE K", "MULTI; INCR D", 2, "EXEC", 1},
	{"whole transaction", "LOCK.ACQUIRE K", "", 0, "MULTI; INCR D; EXEC", 1},
	{"watched", "LOCK.ACQUIRE K", "WATCH other", 1, "INCR D", 5},
	{"blocking", "LOCK.ACQUIRE K", "", 0, "BLMOVE from D LEFT LEFT 1; RPUSH D x", 1},
	{"read first", "LOCK.ACQUIRE K", "", 0, "GET D; LOCK.TTL K; INCR D", 3},
	{"permit", "SEM.ACQUIRE K", "", 0, "INCR D", 5},
	{"latch", "LOCK.ACQUIRE K", "LATCH.SET D 100", 1, "LATCH.DOWN D", 5},
	{"plain counter", "LOCK.ACQUIRE K", "SEM.GIVE D 5", 1, "SEM.GIVE D; SEM.TAKE D 2", 5},
	{"another lock", "LOCK.ACQUIRE K", "", 0, "LOCK.ACQUIRE D", 5},
}

// TestR27AStoppedLeashLetsNothingThrough stops a Leash until its clients have lost their locks to
// clients of another Leash. What its clients sent during the stop must not be executed when it
// continues.
func TestR27AStoppedLeashLetsNothingThrough(t *testing.T) {
	t.Parallel()
	for _, threads := range []string{"1", "4"} {
		t.Run("threads "+threads, func(t *testing.T) {
			t.Parallel()
			testStopped(t, "--threads", threads)
		})
	}
}

func testStopped(t *testing.T, args ...string) {
	// clients of each way, clients without a lock, and how much the latter send
	const each, bystanders, load = 10, 30, 500
	s, dir := redistest.Start(t), t.TempDir()
	var err error
	binary := leashtest.Binary(t)
	var leashes [2]*leashtest.Leash
	for i := range leashes {
		leashes[i], err = leashtest.Start(t.Context(), binary, dir, append(args, "--upstream", s.Addr, "--watchdog-timeout", "4s")...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(leashes[i].Kill)
	}
	direct, next := redistest.Connect(t, s.Addr), redistest.Connect(t, leashes[1].Addr)

	var clients []*redistest.TestClient
	var locks, data []string
	commands := func(way stoppedWay, n int, text string) (all []string) {
		for command := range strings.SplitSeq(text, "; ") {
			words := strings.Fields(command)
			for i, word := range words {
				switch {
				case word == "K":
					words[i] = locks[n]
				case word == "D", strings.HasSuffix(word, "}D"):
					words[i] = strings.TrimSuffix(word, "D") + data[n]
				}
			}
			if len(words) > 0 {
				all = append(all, redistest.Command(words...))
			}
		}
		return all
	}
	for _, way := range stoppedWays {
		for i := range each {
			n := len(clients)
			locks = append(locks, fmt.Sprintf("lock-%d", n))
			data = append(data, fmt.Sprintf("data-%d", n))
			if strings.HasPrefix(way.acquire, "SEM.") {
				next.Want(":1\r\n", "SEM.INIT", locks[n], "1")
			}
			c := redistest.Connect(t, leashes[0].Addr)
			clients = append(clients, c)
			c.Send(commands(way, n, way.acquire)[0])
			if reply := c.Read(); !granted(reply) {
				t.Fatalf("%s %d: got %q", way.name, i, reply)
			}
			c.Send(strings.Join(commands(way, n, way.before), ""))
			for range way.replies {
				if reply := c.Read(); strings.HasPrefix(reply, "-") {
					t.Fatalf("%s %d: got %q", way.name, i, reply)
				}
			}
		}
	}
	var others []*redistest.TestClient
	for range bystanders {
		others = append(others, redistest.Connect(t, leashes[0].Addr))
		others[len(others)-1].Want("+PONG\r\n", "PING")
	}
	if err := leashes[0].Pause(); err != nil {
		t.Fatal(err)
	}
	for _, c := range others {
		c.Send(strings.Repeat(redistest.Command("SET", "free", "1"), load))
	}
	for n, c := range clients {
		way := stoppedWays[n/each]
		c.Send(strings.Repeat(strings.Join(commands(way, n, way.meantime), ""), way.repeated))
	}
	next.Timeout = ample
	for n := range clients {
		way := stoppedWays[n/each]
		acquire := []string{"LOCK.ACQUIRE", locks[n], "BLOCK", "0"}
		switch {
		case strings.Contains(way.acquire, "READ"), strings.Contains(way.acquire, "WRITE"):
			acquire = append(acquire, "WRITE")
		case strings.HasPrefix(way.acquire, "SEM."):
			acquire[0] = "SEM.ACQUIRE"
		}
		if reply := next.Do(acquire...); !granted(reply) {
			t.Fatalf("%s: the next one got %q", way.name, reply)
		}
	}
	before := values(t, direct, data)
	if err := leashes[0].Resume(); err != nil {
		t.Fatal(err)
	}
	// A write that Redis has not taken when a hold ends breaks the connection to Redis. The clients
	// whose commands were on it are told.
	lost := 0
	for _, c := range others {
		for range load {
			if reply := c.Read(); strings.HasPrefix(reply, "-UPSTREAMLOST ") {
				lost++
			} else if reply != "+OK\r\n" {
				t.Fatalf("a client without a lock got %q", reply)
			}
		}
	}
	if lost > bystanders*load/10 {
		t.Errorf("clients without a lock lost %d of %d commands", lost, bystanders*load)
	}
	for n, c := range clients {
		c.Timeout = ample
		if err := readToEnd(c.Client); err != nil {
			t.Errorf("%s: the holder's connection: %v", stoppedWays[n/each].name, err)
		}
	}
	// the connection of INFO itself
	if err := leashes[0].AwaitInfo(ample, fmt.Sprint("sessions:", 1+bystanders)); err != nil {
		t.Error(err)
	}
	for n, after := range values(t, direct, data) {
		if after != before[n] {
			t.Errorf("%s: Redis had %q under the lock when the next holder got it, and %q afterwards", stoppedWays[n/each].name, before[n], after)
		}
	}
}

// readToEnd reads and discards until the connection ends.
func readToEnd(c *redistest.Client) error {
	for {
		_, err := c.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// values are the values of the keys, of any type.
func values(t *testing.T, direct *redistest.TestClient, keys []string) (all []string) {
	t.Helper()
	for _, key := range keys {
		all = append(all, direct.Do("DUMP", key))
	}
	return all
}

// TestIdleCountsWhatCameDuringASuspension: a client that sent something is not idle, even if Leash
// has not read it yet. A client that sent nothing is idle.
func TestIdleCountsWhatCameDuringASuspension(t *testing.T) {
	t.Parallel()
	const idle = 6 * time.Second // longer than it takes to make all holders
	l, _ := startOne(t, time.Minute)
	var holders []*holder
	for i := range 40 {
		key := fmt.Sprint("lock", i)
		holders = append(holders, newHolder(t, l, key, "LOCK.TTL "+key, "IDLE", fmt.Sprint(idle.Milliseconds())))
	}
	silent := newHolder(t, l, "silent", "", "IDLE", fmt.Sprint(idle.Milliseconds()))
	pause(t, l, 2*idle, holders)
	for _, h := range holders {
		if reply, err := h.Read(); err != nil || inMillis(t, reply) <= 0 {
			t.Fatalf("the client that sent something got %q, %v", reply, err)
		}
	}
	if err := silent.AwaitEnd(); err != nil {
		t.Errorf("the silent client: %v", err)
	}
}
