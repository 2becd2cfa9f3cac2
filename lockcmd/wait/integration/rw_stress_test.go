package wait_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// TestReadersAndWritersUnderLoad: Random readers and writers on two Leashes and in Java acquire,
// downgrade and re-enter a lock. They release it in every way or disconnect. There is never a
// writer beside another holder. Every write is counted, tokens rise, and nothing is left in Redis.
func TestReadersAndWritersUnderLoad(t *testing.T) {
	t.Parallel()
	clients, rounds := 40, 15
	if testing.Short() {
		clients, rounds = 12, 8
	}
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: 10 * time.Second}
		l := &readWriteLoad{t: t, rdb: rdb, key: locktest.NewKey(),
			services: []*lockcmd.Service{locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)}}
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 11))
				for range rounds {
					if i%8 == 0 {
						l.java(random, strconv.Itoa(i))
					} else {
						l.client(random)
					}
				}
			})
		}
		wg.Wait()
		if got, _ := rdb.Get(context.Background(), "{"+l.key+"}counter").Int64(); got != l.writes.Load() ||
			l.writes.Load() == 0 || l.reads.Load() == 0 {
			t.Errorf("got counter %d after %d writes; %d reads", got, l.writes.Load(), l.reads.Load())
		}
		locktest.Eventually(t, 5*time.Second, "nothing is left", func() bool {
			for _, s := range l.services {
				if s.Stats().Holds != 0 || s.Stats().Waiters != 0 || s.Waiting(locktest.LockOf(l.key)) != 0 {
					return false
				}
			}
			return !locktest.Exists(t, rdb, l.key) && !locktest.Exists(t, rdb, script.RecordsKey(l.key))
		})
		t.Logf("%d reads, up to %d at once, and %d writes", l.reads.Load(), l.most.Load(), l.writes.Load())
	})
}

type readWriteLoad struct {
	t        *testing.T
	rdb      redis.UniversalClient
	key      string
	services []*lockcmd.Service

	inside              sync.RWMutex // locked by the holder of the lock
	readers, most       atomic.Int64
	reads, writes, last atomic.Int64
}

// client runs one client.
func (l *readWriteLoad) client(random *rand.Rand) {
	c := locktest.Connect(l.t, l.services[random.IntN(2)])
	defer l.leave(c)
	dies := random.IntN(4) == 0
	if dies {
		time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, c.Gone)
	}
	option := []string{"READ", "READ", "WRITE"}[random.IntN(3)]
	args := []string{"LOCK.ACQUIRE", l.key, option, "BLOCK", "0"}
	owner := ""
	if random.IntN(2) == 0 {
		owner = "me:" + c.Carrier.Name
		args = append(args, "OWNER", owner)
	}
	reply := c.Do(args...)
	if !strings.HasPrefix(reply, ":") {
		if !dies {
			l.t.Errorf("got %q", reply)
		}
		return
	}
	token, _ := strconv.ParseInt(reply[1:], 10, 64)
	if option == "READ" {
		l.read()
	} else {
		l.write(token)
	}
	if owner != "" && !dies && random.IntN(3) == 0 { // acquired again
		if again := c.Do("LOCK.ACQUIRE", l.key, option, "OWNER", owner); again != reply {
			l.t.Errorf("got %q on entering again, want %q", again, reply)
		}
		l.release(c, ":0")
	}
	if owner != "" && !dies && option == "WRITE" && random.IntN(2) == 0 { // downgrade
		locktest.WantPrefix(l.t, c.Do("LOCK.ACQUIRE", l.key, "READ", "OWNER", owner), ":")
		l.release(c, ":1", "WRITE")
		l.read()
		l.release(c, ":1")
		return
	}
	switch random.IntN(3) {
	case 0: // disconnects
	case 1:
		l.release(c, ":1")
	case 2: // on another connection
		l.release(locktest.Connect(l.t, l.services[random.IntN(2)]), ":1", "TOKEN", reply[1:])
	}
}

func (l *readWriteLoad) release(c *locktest.Client, want string, options ...string) {
	if reply := c.Do(append([]string{"LOCK.RELEASE", l.key}, options...)...); reply != want {
		l.t.Errorf("release %v: got %q, want %q", options, reply, want)
	}
}

func (l *readWriteLoad) leave(c *locktest.Client) {
	c.Gone()
	c.Carrier.End(lockcmd.Release)
	if len(c.Losses) != 0 {
		l.t.Errorf("lost %s", <-c.Losses)
	}
}

// read is what a reader does with the lock.
func (l *readWriteLoad) read() {
	if !l.inside.TryRLock() {
		l.t.Error("a reader beside a writer")
		return
	}
	defer l.inside.RUnlock()
	l.most.Store(max(l.most.Load(), l.readers.Add(1)))
	defer l.readers.Add(-1)
	<-time.After(time.Millisecond)
	l.reads.Add(1)
}

// write is what a writer does with the lock: it adds one to the value.
func (l *readWriteLoad) write(token int64) {
	if !l.inside.TryLock() {
		l.t.Error("a writer beside another one, or beside a reader")
		return
	}
	defer l.inside.Unlock()
	if before := l.last.Swap(token); token > 0 && token <= before {
		l.t.Errorf("got token %d after %d", token, before)
	}
	ctx, counter := context.Background(), "{"+l.key+"}counter"
	n, _ := l.rdb.Get(ctx, counter).Int64()
	if err := l.rdb.Set(ctx, counter, n+1, 0).Err(); err != nil {
		l.t.Error(err)
	}
	l.writes.Add(1)
}

// java runs a Java thread that polls.
func (l *readWriteLoad) java(random *rand.Rand, thread string) {
	j := locktest.NewJavaRW(l.t, l.rdb, l.key, thread)
	take, work, release := j.Read, l.read, j.Unread
	if random.IntN(3) == 0 {
		take, release = j.Write, j.Unwrite
		work = func() { l.write(l.last.Load() + 1) }
	}
	for !take(30 * time.Second) {
		<-time.After(time.Duration(random.IntN(5000)) * time.Microsecond)
	}
	work()
	if release() == nil {
		l.t.Error("java did not hold what it had taken")
	}
}
