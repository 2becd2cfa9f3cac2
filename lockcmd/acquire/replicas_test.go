package acquire_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// clusterWithReplicas starts a cluster with one replica for each master.
func clusterWithReplicas(t *testing.T) (*redistest.Cluster, *redis.ClusterClient) {
	t.Helper()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: 30 * time.Second})
	return cluster, locktest.DialCluster(t, cluster.Addrs()...)
}

// TestR32AnUndoWithoutAnAnswer: while Redis does not answer the undo of an acquire with REPLICAS,
// the client is not told that the lock is released.
func TestR32AnUndoWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	held := p.HoldBefore(locktest.Running(script.Plain.Undo, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "REPLICAS", "1"),
		"-NOREPLICAS 0 of 1 replicas confirmed the lock in time, Leash is still releasing it")
	held.Disarm()
	held.Release()
	locktest.Eventually(t, locktest.Soon, "the lock is released",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(s), key) })
}

// TestR32NoReplicas: A Redis without replicas grants no lock with REPLICAS, and nothing stays
// acquired.
func TestR32NoReplicas(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		began := time.Now()
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "REPLICAS", "3"),
			"-NOREPLICAS 0 of 3 replicas confirmed the lock in time, Leash released it")
		if took := time.Since(began); took < 500*time.Millisecond || took > locktest.Soon {
			t.Errorf("that took %v", took)
		}
		if locktest.Exists(t, rdb, key) {
			t.Error("the lock stayed taken")
		}
		locktest.OnTime(t, func() error {
			began := time.Now()
			locktest.WantPrefix(t, a.Do("LOCK.ACQUIRE", key, "REPLICAS", "3", "BLOCK", "50"), "-NOREPLICAS 0 of 3 ")
			if took := time.Since(began); took > 800*time.Millisecond {
				return fmt.Errorf("with BLOCK 50 it took %v", took)
			}
			return nil
		})
		keys := append(locktest.NewKeys(2), key)
		locktest.WantPrefix(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "REPLICAS", "1")...), "-NOREPLICAS 0 of 1 ")
		locktest.WantPrefix(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "REPLICAS", "1", "QUORUM", "2", "BLOCK",
			"0")...),
			"-NOREPLICAS 0 of 1 ")
		for _, key := range keys {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}

		// Only the second acquire of a re-entered hold is undone.
		token := a.Token(key, "OWNER", "x")
		locktest.WantPrefix(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "x", "REPLICAS", "1", "BLOCK", "20"), "-NOREPLICAS ")
		if got := a.Token(key, "OWNER", "x"); got != token {
			t.Errorf("got token %d, want %d", got, token)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "REPLICAS", "1"),
			"$-1") // the lock is taken, so there is no need to wait for replicas
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	})
}

// TestR32GrantsAreOnReplicas: When the client is told of the grant, a replica has it.
func TestR32GrantsAreOnReplicas(t *testing.T) {
	t.Parallel()
	cluster, rdb := clusterWithReplicas(t)
	s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	copied := func(key, owner string) {
		t.Helper()
		conn := cluster.ReplicaOf(int(slots.Of([]byte(key)))).Client().Conn()
		defer conn.Close()
		if err := conn.ReadOnly(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.HGet(t.Context(), key, owner).Result(); err != nil || n != "1" {
			t.Errorf("the replica has %q of %s, %v", n, key, err)
		}
	}
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
	for range 20 {
		key := locktest.NewKey()
		a.Token(key, "REPLICAS", "1", "OWNER", "a")
		copied(key, "a")
	}
	locktest.WantPrefix(t, a.Do("LOCK.ACQUIRE", locktest.NewKey(), "REPLICAS", "2", "BLOCK", "300"),
		"-NOREPLICAS 1 of 2 ")
	keys := locktest.NewKeys(6)
	locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "REPLICAS", "1", "OWNER", "a", "BLOCK", "0")...),
		6)
	for _, key := range keys {
		copied(key, "a")
	}
	locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":6")

	// A release does not hand the lock over to this waiter, because it could not wait for the
	// replica.
	key := locktest.NewKey()
	a.Token(key)
	first := b.Await(s, 1, key, "BLOCK", "0", "REPLICAS", "1", "OWNER", "b")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, first, 5*time.Second))
	copied(key, "b")
	second := c.Await(other, 1, key, "BLOCK", "0", "REPLICAS", "1", "OWNER", "c")
	locktest.Eventually(t, 5*time.Second, "c listens", func() bool { return locktest.Subscribers(t, rdb, key) >= 1 })
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, second, 5*time.Second))
	copied(key, "c")
	if n := s.Stats().Handovers + other.Stats().Handovers; n != 0 {
		t.Errorf("%d grants were made by releases", n)
	}
}

// TestR32SlowReplicaDelaysNobodyElse: A replica hangs, and more acquires wait for it than
// connections may. Commands without REPLICAS continue: renewals, acquires and releases.
func TestR32SlowReplicaDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	cluster, rdb := clusterWithReplicas(t)
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 8 * time.Second, UpstreamTimeout: 6 * time.Second})
	key := locktest.NewKey()
	slot := int(slots.Of([]byte(key)))
	var holders []*locktest.Client
	for n := range 20 {
		c := locktest.Connect(t, s)
		c.Token(redistest.KeyIn(slot, "held"+strconv.Itoa(n)))
		holders = append(holders, c)
	}
	replica := cluster.ReplicaOf(slot)
	if err := replica.Pause(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	const waiting = 128
	replies, over := make(chan string, 100*waiting), make(chan struct{})
	for n := range waiting {
		c, key := locktest.Connect(t, s), redistest.KeyIn(slot, "copied"+strconv.Itoa(n))
		wg.Go(func() {
			for {
				replies <- c.Do("LOCK.ACQUIRE", key, "REPLICAS", "1")
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	c := locktest.Connect(t, s)
	began := time.Now()
	// longer than a hold lasts without renewal
	for pairs := 0; pairs < 50 || time.Since(began) < 9*time.Second; pairs++ {
		c.Token(key)
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		// behind the acquires that wait for the replica, each would take a second or two
		if pairs == 50 && time.Since(began) > locktest.Soon {
			t.Errorf("50 acquires and releases took %v", time.Since(began))
		}
	}
	close(over)
	wg.Wait()
	close(replies)
	refused := 0
	for reply := range replies {
		switch {
		case strings.HasPrefix(reply, "-NOREPLICAS 0 of 1 "):
			refused++
		default:
			t.Errorf("got %q", reply)
		}
	}
	if refused < waiting {
		t.Errorf("%d were told NOREPLICAS", refused)
	}
	for _, h := range holders {
		if n := len(h.Losses); n != 0 {
			t.Fatalf("lost: %s", <-h.Losses)
		}
	}
	locktest.Eventually(t, time.Second, "a renewed hold is certain for half of its TTL", func() bool {
		return locktest.NumberOf(t, holders[0].Do("LOCK.TTL", redistest.KeyIn(slot, "held0"))) >= 4000
	})
	if err := replica.Resume(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, 10*time.Second, "the replica is back", func() bool {
		reply := c.Do("LOCK.ACQUIRE", key, "REPLICAS", "1")
		return reply[0] == ':'
	})
}

// TestR32RepeatOnAnotherConnection: An ACQUIRE that is repeated with its ID on another connection
// asks the replicas again.
func TestR32RepeatOnAnotherConnection(t *testing.T) {
	t.Parallel()
	cluster, rdb := clusterWithReplicas(t)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	token := a.Token(key, "OWNER", "x", "ID", "1", "REPLICAS", "1")
	if got := b.Token(key, "OWNER", "x", "ID", "1", "REPLICAS", "1"); got != token {
		t.Errorf("got token %d, want %d", got, token)
	}
	replica := cluster.ReplicaOf(int(slots.Of([]byte(key))))
	if err := replica.Pause(); err != nil {
		t.Fatal(err)
	}
	locktest.WantPrefix(t, c.Do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "1", "REPLICAS", "1"), "-NOREPLICAS ")
	locktest.Eventually(t, 20*time.Second, "it was released", func() bool { return !locktest.Exists(t, rdb, key) })
	if err := replica.Resume(); err != nil {
		t.Fatal(err)
	}
}

// TestR32RepetitionIsUndoneAlone: A repeated ACQUIRE moves a hold, and the replicas do not have it
// in time. Only this acquire is undone. The others stay.
func TestR32RepetitionIsUndoneAlone(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Twice(key)
		locktest.WantPrefix(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "2", "REPLICAS", "1"),
			"-NOREPLICAS 0 of 1 ")
		locktest.Eventually(t, 5*time.Second, "that acquire is undone",
			func() bool { return locktest.Count(rdb, key, "x") == "1" })
		if a.Carrier.Holds() != 0 || b.Carrier.Holds() != 1 {
			t.Errorf("got %d and %d holds, want 0 and 1", a.Carrier.Holds(), b.Carrier.Holds())
		}
		if again := b.Token(key, "OWNER", "x", "ID", "2"); again != token { // it counts again
			t.Errorf("got token %d, want %d", again, token)
		}
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		if len(a.Losses)+len(b.Losses) != 0 {
			t.Error("reported as a loss")
		}
	})
}

// writes returns how many writes the masters have executed since their start or their last
// snapshot.
func writes(t *testing.T, rdb redis.UniversalClient) int64 {
	t.Helper()
	var sum atomic.Int64
	if err := locktest.Each(rdb, func(c *redis.Client) error {
		text, err := c.Info(t.Context(), "persistence").Result()
		_, value, _ := strings.Cut(text, "rdb_changes_since_last_save:")
		value, _, _ = strings.Cut(value, "\r\n")
		n, wrong := strconv.ParseInt(value, 10, 64)
		sum.Add(n)
		return errors.Join(err, wrong)
	}); err != nil {
		t.Fatal(err)
	}
	return sum.Load()
}

// TestR32TouchWritesAndChangesNothing: Since Redis 7.2, WAIT counts only what its own connection
// has written. The touch script therefore writes, without a change.
func TestR32TouchWritesAndChangesNothing(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.NewLeash(t, rdb, lockcmd.Config{WatchdogTimeout: 10 * time.Minute})
		for _, mode := range [][]string{nil, {"READ"}, {"WRITE"}} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			a.Token(append([]string{key}, mode...)...)
			before := locktest.StateOf(t, rdb, key)
			for _, forever := range []bool{false, true} {
				if forever {
					rdb.Persist(t.Context(), key)
				}
				left, written := rdb.PTTL(t.Context(), key).Val(), writes(t, rdb)
				if reply, err := locktest.RunScript(t.Context(), rdb, script.TouchScript,
					[]string{key}); err != nil || fmt.Sprint(reply) != "1" {
					t.Errorf("%s: answered %v %v", mode, reply, err)
				}
				if writes(t, rdb) == written {
					t.Errorf("%s: nothing was written", mode)
				}
				if now := rdb.PTTL(t.Context(), key).Val(); now > left || now < left-time.Minute {
					t.Errorf("%s: it lasts for %v, and did for %v", mode, now, left)
				}
			}
			if after := locktest.StateOf(t, rdb, key); !slices.Equal(before, after) {
				t.Errorf("%s: it was %q and is %q", mode, before, after)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
		if reply, err := locktest.RunScript(t.Context(), rdb, script.TouchScript,
			[]string{locktest.NewKey()}); err != nil || fmt.Sprint(reply) != "0" {
			t.Errorf("of none: answered %v %v", reply, err)
		}
	})
}

// TestR32AnUndoThatIsNotAllowed: Leash's own user lacks each command that the undo of a grant, or
// the wait for replicas, needs. The acquire then fails before it writes, and names the right.
func TestR32AnUndoThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := locktest.DialServer(t, server.Addr)
	rights := func(change string) {
		t.Helper()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "leash", "reset", "on", ">pw", "~*", "&*", "+@all",
			change).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rights("+@all")
	opt := *admin.Options()
	opt.Username, opt.Password = "leash", "pw"
	rdb := redis.NewClient(&opt)
	t.Cleanup(func() { rdb.Close() })
	s := locktest.NewLeash(t, rdb, lockcmd.Config{WatchdogTimeout: time.Hour})
	for _, m := range script.Modes {
		for _, before := range []int{0, 1, 2} { // counts of the owner
			named := 0
			for _, command := range append(m.Undo.Commands(), "WAIT", "PERSIST") {
				key, a := locktest.NewKey()+"x", locktest.Connect(t, s)
				for range before {
					a.Hold(key, m.Option, "OWNER", "me")
				}
				was := locktest.StoredKeys(t, admin, key)
				rights("-" + command)
				reply := a.Do(append([]string{"LOCK.ACQUIRE", key, "OWNER", "me", "REPLICAS", "1", "BLOCK", "20"},
					strings.Fields(m.Option)...)...)
				rights("+@all")
				switch {
				case strings.HasPrefix(reply, "-NOREPLICAS "):
					n, _ := admin.HGet(t.Context(), key, locktest.FieldOf(m, "me")).Int()
					if n != before {
						t.Errorf("%s, %d counts, without %s: it was answered %q and left %d counts", m.Name, before,
							command, reply, n)
					}
				case !strings.HasPrefix(reply, "-NOPERM ") ||
					!strings.Contains(reply, "'"+strings.ToLower(command)+"'"):
					t.Errorf("%s, %d counts, without %s: it was answered %q", m.Name, before, command, reply)
				default:
					named++
					if is := locktest.StoredKeys(t, admin, key); !maps.EqualFunc(was, is, locktest.StoredKey.Same) {
						t.Errorf("%s, %d counts, without %s: it was answered %q and left\n%v\nof\n%v", m.Name,
							before, command, reply, is, was)
					}
				}
			}
			if named < 6 {
				t.Errorf("%s, %d counts: only %d rights were missed", m.Name, before, named)
			}
		}
	}
}
