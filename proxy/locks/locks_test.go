package locks_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestReadmeExample runs the first example of the README.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client, other := l.Dial(t), l.Dial(t)
	first := proxytest.Token(t, client, "order:42")
	client.Want(t, "+OK\r\n", "SET", "stock:42", "7")
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "order:42")
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "order:42")
	second := proxytest.Token(t, other, "order:42")
	if a, b := proxytest.Number(t, first), proxytest.Number(t, second); b <= a {
		t.Errorf("token %d after %d", b, a)
	}
}

// TestWatchdogKeepsTheLease checks that the TTL of a lock never falls below half while it is held
// for two and a half TTLs, as its own Redis reports (R3). A busy machine may delay a renewal by a
// second.
func TestWatchdogKeepsTheLease(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(10*time.Second))
	holder := l.Dial(t)
	proxytest.Token(t, holder, "k")
	for start := time.Now(); time.Since(start) < 25*time.Second; {
		ttl, err := redis.Client().PTTL(t.Context(), "k").Result()
		if err != nil || ttl <= time.Second { // 6.7 s, less what the machine delays a renewal
			t.Fatalf("after %v: PTTL %v %v", time.Since(start), ttl, err)
		}
		time.Sleep(5 * time.Millisecond) // between looks
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
}

// TestLeaseEnds checks that a hold with LEASE is not renewed, whatever the connection does (R3).
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	holder, other := l.Dial(t), l.Dial(t)
	start := time.Now()
	proxytest.Token(t, holder, "k", "LEASE", "4000")
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
	proxytest.Token(t, other, "k", "BLOCK", "10000")
	if d := time.Since(start); d < 4*time.Second-50*time.Millisecond || d > 10*time.Second {
		t.Errorf("the lock is free after %v", d)
	}
}

// redisCLI starts a redis-cli process that holds a lock.
func redisCLI(t *testing.T, addr, command string) (cli *exec.Cmd, reply string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	cli = exec.CommandContext(t.Context(), "redis-cli", "-p", port)
	in, err := cli.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cli.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cli.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Process.Kill(); _ = cli.Wait() })
	if _, err := io.WriteString(in, command+"\n"); err != nil {
		t.Fatal(err)
	}
	reply, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cli, strings.TrimSpace(reply)
}

// TestHolderKilled checks that kill -9 of a holder frees its lock long before the lease ends (R28).
func TestHolderKilled(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	for range 5 {
		cli, reply := redisCLI(t, l.Addr, "LOCK.ACQUIRE k")
		proxytest.Number(t, reply)
		waiter := l.Dial(t)
		waiter.Timeout = 20 * time.Second
		proxytest.KillHolder(t, l, cli.Process, waiter)
		waiter.Close()
	}
}

// TestWaiterKilledIsNeverGranted checks that a waiter whose client was killed never gets the lock
// (R19).
func TestWaiterKilledIsNeverGranted(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	holder, last := l.Dial(t), l.Dial(t)
	for range 20 {
		proxytest.Token(t, holder, "k")
		waiter, err := redistest.Dial(l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0") +
			redistest.Command("SET", "granted", "1")); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
		waiter.Close()
		proxytest.Eventually(t, "it has left", func() bool { return l.Locks.Stats().Waiters == 0 })
		holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		proxytest.Token(t, last, "k")
		last.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		last.Want(t, ":0\r\n", "EXISTS", "granted")
	}
}

// TestMutualExclusion lets 100 clients lock, increment and unlock while half of them are killed at
// random. There are never two holders, and nothing is left behind.
func TestMutualExclusion(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	leashes := []*proxytest.Leash{proxytest.Start(t, c.Addrs(), proxytest.Watchdog(10*time.Second)),
		proxytest.Start(t, c.Addrs(), proxytest.Watchdog(10*time.Second))}
	const clients, cycles = 100, 50
	var inside, entered, completed atomic.Int64
	var working sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for i := range clients {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for n := 0; n < cycles && ctx.Err() == nil; n++ {
				deadly := i%2 == 1 && rng.IntN(4) == 0
				if err := cycle(leashes[i%2].Addr, deadly, rng, &inside, &entered); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				if !deadly {
					completed.Add(1)
				}
			}
		})
	}
	working.Wait()
	t.Logf("%d locked, %d completed", entered.Load(), completed.Load())
	if ctx.Err() != nil {
		t.Fatal("not done in time")
	}
	check := leashes[0].Dial(t)
	check.Timeout = 20 * time.Second
	proxytest.Token(t, check, "mutex", "BLOCK", "15000")
	check.Want(t, ":1\r\n", "LOCK.RELEASE", "mutex")
	if got := check.Reply(t, "GET", "count"); proxytest.Number(t, strings.Split(got, "\r\n")[1]) < completed.Load() {
		t.Errorf("count %q, completed %d", got, completed.Load())
	}
	for _, l := range leashes {
		proxytest.Eventually(t, "no hold and no waiter is left", func() bool {
			s := l.Locks.Stats()
			return s.Holds == 0 && s.Waiters == 0
		})
	}
	check.Want(t, ":0\r\n", "EXISTS", "mutex")
}

// cycle locks, increments without atomicity, and unlocks. With deadly set, it closes its socket at
// a random point.
func cycle(addr string, deadly bool, rng *rand.Rand, inside, entered *atomic.Int64) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = 60 * time.Second
	if deadly && rng.IntN(2) == 0 {
		// closed while it waits, or as it gets the lock
		return c.Send(redistest.Command("LOCK.ACQUIRE", "mutex", "BLOCK", "0"))
	}
	reply, err := c.Do("LOCK.ACQUIRE", "mutex", "BLOCK", "0")
	if err != nil || reply[0] != ':' {
		return fmt.Errorf("acquire: %q %w", reply, err)
	}
	entered.Add(1)
	if n := inside.Add(1); n != 1 {
		return fmt.Errorf("%d holders at once", n)
	}
	err = increment(c)
	inside.Add(-1)
	if err != nil || deadly {
		return err // closed without a release
	}
	if reply, err := c.Do("LOCK.RELEASE", "mutex"); err != nil || reply != ":1\r\n" {
		return fmt.Errorf("release: %q %w", reply, err)
	}
	return nil
}

// increment adds one to a value that only the holder may change.
func increment(c *redistest.Client) error {
	got, err := c.Do("GET", "count")
	if err != nil {
		return err
	}
	n := 0
	if got != "$-1\r\n" {
		n, _ = strconv.Atoi(strings.Split(got, "\r\n")[1])
	}
	if reply, err := c.Do("SET", "count", strconv.Itoa(n+1)); err != nil || reply != "+OK\r\n" {
		return fmt.Errorf("set: %q %w", reply, err)
	}
	return nil
}

// TestStopKeepsLocks checks that a stop renews each hold to its full TTL before it closes the
// connection, and closes connections without holds first (R31).
func TestStopKeepsLocks(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Front.DrainTimeout = 300 * time.Millisecond
	})
	holder, idle, waiter := l.Dial(t), l.Dial(t), l.Dial(t)
	proxytest.Token(t, holder, "k")
	idle.Want(t, "+PONG\r\n", "PING")
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	if err := redis.Client().PExpire(t.Context(), "k", 5*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	l.Stop()
	if ttl := redis.Client().PTTL(t.Context(), "k").Val(); ttl < 25*time.Second {
		t.Errorf("the lock was left with %v", ttl)
	}
	for name, c := range map[string]*redistest.Client{"holder": holder, "idle": idle} {
		if err := c.AwaitEnd(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := waiter.Read(); err == nil && got[0] != '-' {
		t.Errorf("the waiter got %q", got)
	}
	if _, err := redistest.Dial(l.Addr); err == nil {
		t.Error("the port is still open")
	}
}

// TestStopDuringAnAcquire: Redis has not answered an acquire when the stop begins. The client gets
// the lock, and has the drain time-out to release it.
func TestStopDuringAnAcquire(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.DrainTimeout = time.Minute })
	holder, idle := l.Dial(t), l.Dial(t)
	proxytest.Token(t, holder, "k") // from now on Redis has the script
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	idle.Want(t, "+PONG\r\n", "PING")
	rdb := redis.Client()
	rdb.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE")
	if err := holder.Send(redistest.Command("LOCK.ACQUIRE", "k")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "Redis has the acquire", func() bool {
		return strings.Contains(rdb.ClientList(t.Context()).Val(), "flags=b")
	})
	go l.Stop()
	if err := idle.AwaitEnd(); err != nil {
		t.Fatal(err)
	}
	rdb.Do(t.Context(), "CLIENT", "UNPAUSE")
	if got, err := holder.Read(); err != nil || got[0] != ':' {
		t.Fatalf("LOCK.ACQUIRE: %q %v", got, err)
	}
	holder.Want(t, "+PONG\r\n", "PING")
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	if err := holder.AwaitEnd(); err != nil {
		t.Error(err)
	}
}
