package leashtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leash/internal/redistest"
)

const (
	drainTimeout = 500 * time.Millisecond
	cycleTimeout = 2 * time.Minute
)

// rollingRestarts is how often TestR31RollingRestartBehindHAProxy restarts a Leash.
// ROLLING_RESTARTS sets it.
func rollingRestarts() int {
	if n, err := strconv.Atoi(os.Getenv("ROLLING_RESTARTS")); err == nil {
		return n
	}
	return 6
}

// TestR31RollingRestartBehindHAProxy: R31. Two Leashes behind HAProxy are restarted in turn, under
// load. Clients connect again and attach their holds. No such hold is lost, no two clients believe
// that they have one lock, and their counts are exact. With ROLLING_OLD, the path of an older
// binary, both become that one first, then the new one, and so on.
func TestR31RollingRestartBehindHAProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	binary := Binary(t)
	var leashes [2]*Leash
	var backends [2]Backend
	for i := range leashes {
		leashes[i], backends[i] = startBalanced(t, dir, strings.Join(cluster.Addrs(), ","), "--drain-timeout", drainTimeout.String())
	}
	balancer := balance(t, dir, backends[:]...)

	work, end := context.WithCancel(t.Context())
	var load sync.WaitGroup
	t.Cleanup(load.Wait)
	t.Cleanup(end)
	resources := [3]resource{{key: "a"}, {key: "b"}, {key: "c"}}
	var all [14]*owner
	for i := range all {
		o := &owner{addr: balancer.Addr, name: fmt.Sprint("owner-", i), rng: rand.New(rand.NewPCG(uint64(i), 31))}
		all[i] = o
		load.Go(func() {
			defer o.drop()
			do := o.work
			if i < 2 {
				do = o.keep
			}
			if err := do(work, resources[:]); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
		})
	}
	binaries := [2]string{cmp.Or(os.Getenv("ROLLING_OLD"), binary), binary}
	for i := range rollingRestarts() {
		l := leashes[i%2]
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := l.RestartWith(t.Context(), binaries[i/2%2]); err != nil {
			t.Fatal(err)
		}
		if err := balancer.AwaitUp(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	end()
	load.Wait()
	if t.Failed() {
		for _, l := range leashes {
			t.Log(l.LogTail())
		}
	}

	for _, o := range all {
		t.Logf("%s: %d cycles, attached its hold %d times", o.name, o.cycles, o.attached)
	}
	if all[0].attached < 3 || all[1].attached < 3 {
		t.Error("the hold of keep was not attached after each restart")
	}
	for _, l := range leashes {
		if err := l.AwaitInfo(0, "proxy_header_errors:0"); err != nil {
			t.Error(err)
		}
	}
	check := &owner{addr: balancer.Addr}
	defer check.drop()
	if got, err := check.do(t.Context(), "CLIENT", "INFO"); err != nil || !strings.Contains(got, fmt.Sprintf(" addr=%v laddr=%s ", check.c.Conn().LocalAddr(), balancer.Addr)) {
		t.Errorf("its client is %q %v", got, err)
	}
	for i := range resources {
		if got, err := check.do(t.Context(), "GET", resources[i].count()); err != nil || got != bulk(resources[i].completed.Load()) {
			t.Errorf("%s counts %q %v, completed %d", resources[i].key, got, err, resources[i].completed.Load())
		}
		if got, err := check.do(t.Context(), "EXISTS", resources[i].key); got != ":0\r\n" {
			t.Errorf("%s is still locked: %q %v", resources[i].key, got, err)
		}
	}
}

// TestHAProxyLeavesALeashThatStops: from the first moment of a stop, HAProxy sends no new clients,
// although Leash still takes them during --drain-delay.
func TestHAProxyLeavesALeashThatStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, backend := startBalanced(t, dir, redistest.Start(t).Addr, "--drain-delay", "10m")
	balancer := balance(t, dir, backend)
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := balancer.AwaitUp(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := l.ping(); err != nil {
		t.Errorf("it takes no clients: %v", err)
	}
}

// startBalanced starts a Leash for a load balancer.
func startBalanced(t *testing.T, dir, upstream string, args ...string) (*Leash, Backend) {
	t.Helper()
	admin := redistest.FreeAddr(t)
	l, err := Start(t.Context(), Binary(t), dir, append(args, "--upstream", upstream, "--proxy-protocol", "--admin", admin)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return l, Backend{l.Addr, admin}
}

// balance starts HAProxy as docs/operations.md says.
func balance(t *testing.T, dir string, leashes ...Backend) *HAProxy {
	t.Helper()
	balancer, err := StartHAProxy(t.Context(), "../../docs/operations.md", dir, leashes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(balancer.Close)
	return balancer
}

// resource is what one lock protects.
type resource struct {
	key       string
	inside    atomic.Int64 // clients that believe that they have the lock
	completed atomic.Int64
}

func (r *resource) count() string { return "count:" + r.key }

func bulk(n int64) string {
	s := strconv.FormatInt(n, 10)
	return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
}

// owner is a client that follows the advice of docs/operations.md for rolling restarts. When its
// connection ends, it connects again and attaches its hold.
type owner struct {
	addr, name string
	rng        *rand.Rand

	c        *redistest.Client // nil when it has to connect again
	hold     *resource         // nil without one
	token    string
	requests int

	cycles, attached int
}

// work takes one lock after the other until ctx is done, and then ends the cycle it is in.
func (o *owner) work(ctx context.Context, resources []resource) error {
	for ctx.Err() == nil {
		if err := o.cycle(ctx, &resources[o.rng.IntN(len(resources))], o.count); err != nil {
			return err
		}
		o.cycles++
	}
	return nil
}

// keep holds its own lock until ctx is done.
func (o *owner) keep(ctx context.Context, _ []resource) error {
	return o.cycle(ctx, &resource{key: o.name}, func(bounded context.Context, _ *resource) error {
		for ctx.Err() == nil {
			if err := o.pause(bounded, 50*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

// cycle takes the lock, does the work and releases. It does not stop in the middle when ctx is
// done.
func (o *owner) cycle(ctx context.Context, r *resource, do func(context.Context, *resource) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cycleTimeout)
	defer cancel()
	o.requests++
	id := strconv.Itoa(o.requests)
	token, err := o.do(ctx, "LOCK.ACQUIRE", r.key, "OWNER", o.name, "ID", id, "ONCLOSE", "EXPIRE", "BLOCK", "60000")
	if err != nil || token[0] != ':' {
		return fmt.Errorf("acquire %s: %q %w", r.key, token, err)
	}
	o.hold, o.token = r, strings.TrimSpace(token[1:])
	if n := r.inside.Add(1); n != 1 {
		return fmt.Errorf("%d clients believe that they have %s", n, r.key)
	}
	if err := do(ctx, r); err != nil {
		return err
	}
	r.inside.Add(-1)
	o.hold = nil // a release is valid on any connection
	if got, err := o.do(ctx, "LOCK.RELEASE", r.key, "OWNER", o.name, "ID", id); err != nil || got != ":1\r\n" {
		return fmt.Errorf("release %s: %q %w", r.key, got, err)
	}
	return nil
}

// count adds one to the counter by GET and SET, with a pause between them. The pause is sometimes
// longer than a Leash waits when it stops.
func (o *owner) count(ctx context.Context, r *resource) error {
	got, err := o.do(ctx, "GET", r.count())
	if err != nil {
		return err
	}
	n := 0
	if got != "$-1\r\n" {
		if n, err = strconv.Atoi(strings.Split(got, "\r\n")[1]); err != nil {
			return fmt.Errorf("GET: %q", got)
		}
	}
	work := time.Duration(o.rng.IntN(20)) * time.Millisecond
	if o.rng.IntN(20) == 0 {
		work = 2 * drainTimeout
	}
	if err := o.pause(ctx, work); err != nil {
		return err
	}
	if got, err := o.do(ctx, "SET", r.count(), strconv.Itoa(n+1)); err != nil || got != "+OK\r\n" {
		return fmt.Errorf("SET: %q %w", got, err)
	}
	r.completed.Add(1)
	return nil
}

// pause is work without Redis. It checks whether the connection is still open.
func (o *owner) pause(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if _, err := o.do(ctx, "PING"); err != nil {
			return err
		}
	}
	return nil
}

// do repeats a command until a Leash that is not stopping answers it.
func (o *owner) do(ctx context.Context, args ...string) (string, error) {
	for {
		if err := o.connect(ctx); err != nil {
			return "", err
		}
		reply, err := o.c.Do(args...)
		if err == nil && !strings.HasPrefix(reply, "-ERR this Leash is shutting down") {
			return reply, nil
		}
		o.drop()
	}
}

// connect opens a connection, and attaches the hold if there is one.
func (o *owner) connect(ctx context.Context) error {
	for o.c == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := redistest.Dial(o.addr)
		if err != nil {
			return err // the balancer always runs
		}
		if o.hold == nil {
			o.c = c
			return nil
		}
		reply, err := c.Do("LOCK.ATTACH", o.hold.key, "OWNER", o.name, "TOKEN", o.token)
		switch {
		case err != nil || strings.HasPrefix(reply, "-ERR this Leash is shutting down"):
			c.Close()
		case reply != ":"+o.token+"\r\n":
			c.Close()
			return fmt.Errorf("%s is lost: %q", o.hold.key, reply)
		default:
			o.c = c
			o.attached++
		}
	}
	return nil
}

func (o *owner) drop() {
	if o.c != nil {
		o.c.Close()
		o.c = nil
	}
}
