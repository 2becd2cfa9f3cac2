package tracking_test

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestReplyOfOtherNodeComesBehindInvalidations checks that a client that caches gets an
// invalidation before the reply to a job, a lock or a confirmation, although the reply comes from
// another and much faster node. The key was written before that reply.
func TestReplyOfOtherNodeComesBehindInvalidations(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
	l := proxytest.Start(t, cluster.Addrs())
	far, near := cluster.MasterOf(1), cluster.MasterOf(16000)
	key, other := redistest.KeyIn(1, "key"), redistest.KeyIn(16000, "other")
	direct, directNear := redistest.Connect(t, far.Server.Addr), redistest.Connect(t, near.Server.Addr)
	for _, row := range []struct {
		command string
		before  []string // what the other node is told first
	}{
		{"BLPOP " + other + " 0", []string{"LPUSH", other, "job"}},
		{"BLMOVE " + other + " " + other + " LEFT LEFT 0", []string{"LPUSH", other, "job"}},
		{"XREAD BLOCK 0 STREAMS " + other + " 0", []string{"XADD", other, "1-1", "f", "v"}},
		{"LOCK.ACQUIRE " + other, nil},
		{"SEM.GIVE " + other, nil},
		{"LOCK.INFO " + other, nil},
		{"WAIT 0 0", nil},
		{"SSUBSCRIBE " + other, nil},
		{"KEYS " + other, nil},
		{"CLIENT TRACKINGINFO", nil},
	} {
		directNear.Do("DEL", other)
		direct.Do("DEL", key)
		c := redistest.Connect(t, l.Addr)
		c.Do("HELLO", "3")
		c.Want("+OK\r\n", "CLIENT", "TRACKING", "ON")
		c.Want("_\r\n", "GET", key)
		far.Proxy.Delay(100 * time.Millisecond)
		direct.Want("+OK\r\n", "SET", key, "new")
		if row.before != nil {
			directNear.Do(row.before...)
		}
		c.Send(redistest.Command(strings.Fields(row.command)...))
		if got := c.Read(); got != invalidation(key) {
			t.Errorf("%s: first came %q", row.command, got)
		}
		if got := c.Read(); got[0] == '-' || strings.Contains(got, "invalidate") {
			t.Errorf("%s: then came %q", row.command, got)
		}
		far.Proxy.Delay(0)
		c.Close()
	}
}

// TestCacheIsNeverStaleBehindABarrier checks that a reader that caches knows every write that was
// answered before its PING, once PONG is there.
func TestCacheIsNeverStaleBehindABarrier(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		for _, redirect := range []bool{false, true} {
			keys := []string{redistest.KeyIn(1, "a"), redistest.KeyIn(8000, "b"), redistest.KeyIn(16000, "c")}
			written := make([]atomic.Int64, len(keys))
			stop, stopped := make(chan struct{}), make(chan error, 1)
			w := l.Dial(t)
			go writeUntil(stop, stopped, w, keys, written)
			r := newCachingReader(t, l, redirect)
			stale := 0
			for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; {
				for i, key := range keys {
					before := written[i].Load()
					r.barrier()
					if value, ok := r.cache[key]; ok && value < before {
						stale++
					}
					r.get(key)
				}
			}
			close(stop)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if stale > 0 || r.told == 0 {
				t.Errorf("with redirect %v: %d values were stale, %d were invalidated", redirect, stale, r.told)
			}
		}
	})
}

// writeUntil writes rising numbers and records which were answered.
func writeUntil(stop <-chan struct{}, stopped chan<- error, c *redistest.Client, keys []string,
	written []atomic.Int64) {
	for n := int64(1); ; n++ {
		select {
		case <-stop:
			stopped <- nil
			return
		default:
		}
		i := int(n) % len(keys)
		if _, err := c.Do("SET", keys[i], fmt.Sprint(n)); err != nil {
			stopped <- err
			return
		}
		written[i].Store(n)
	}
}

// cachingReader caches what it reads until it gets an invalidation, on its own connection or on
// another one.
type cachingReader struct {
	t           *testing.T
	data, heard *redistest.TestClient
	redirected  bool
	cache       map[string]int64
	told        int
}

func newCachingReader(t *testing.T, l *proxytest.Leash, redirected bool) *cachingReader {
	r := &cachingReader{t: t, data: redistest.Connect(t, l.Addr), redirected: redirected, cache: make(map[string]int64)}
	if !redirected {
		r.heard = r.data
		r.data.Do("HELLO", "3")
		r.data.Want("+OK\r\n", "CLIENT", "TRACKING", "ON")
		return r
	}
	r.heard = redistest.Connect(t, l.Addr)
	id := strings.Trim(r.heard.Do("CLIENT", "ID"), ":\r\n")
	r.heard.Do("SUBSCRIBE", "__redis__:invalidate")
	r.data.Want("+OK\r\n", "CLIENT", "TRACKING", "ON", "REDIRECT", id)
	return r
}

// barrier sends PING where invalidations arrive, and handles everything that arrives before the
// reply.
func (r *cachingReader) barrier() {
	r.heard.Send(redistest.Command("PING"))
	for reply := r.heard.Read(); reply != "+PONG\r\n" && !strings.Contains(reply, "pong"); reply = r.heard.Read() {
		r.forget(reply)
	}
}

func (r *cachingReader) forget(frame string) {
	r.t.Helper()
	if !strings.Contains(frame, "invalidate") {
		r.t.Fatalf("got %q", frame)
	}
	r.told++
	lines := bufio.NewScanner(strings.NewReader(frame))
	for lines.Scan() {
		delete(r.cache, lines.Text())
	}
	if strings.HasSuffix(frame, "_\r\n") || strings.HasSuffix(frame, "$-1\r\n") {
		clear(r.cache)
	}
}

// get reads a key that is not cached. An invalidation that arrives first may be about the value in
// flight.
func (r *cachingReader) get(key string) {
	if _, ok := r.cache[key]; ok {
		return
	}
	r.data.Send(redistest.Command("GET", key))
	reply := r.data.Read()
	for ; strings.HasPrefix(reply, ">"); reply = r.data.Read() {
		r.forget(reply)
	}
	if n, err := strconv.ParseInt(strings.Split(reply+"\r\n", "\r\n")[1], 10, 64); err == nil {
		r.cache[key] = n
	}
}
