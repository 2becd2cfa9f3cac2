package restore_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestR27LocksAreLostWhenRedisRestartsEmpty: A Redis restarts empty and has lost all locks. Their
// holders are told. New locks work as usual. (Redisson: testLockAfterTimeout,
// testReadLockAfterTimeout, testWriteLockAfterTimeout.)
func TestR27LocksAreLostWhenRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	locktest.RunParallel(t, map[string]func(*testing.T){
		"single": func(t *testing.T) {
			server := redistest.Start(t)
			restartEmpty(t, locktest.DialServer(t, server.Addr), server.Restart)
		},
		"cluster": func(t *testing.T) {
			cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
			restartEmpty(t, locktest.DialCluster(t, cluster.Addrs()...), func() error {
				var errs []error
				for _, node := range cluster.Masters() {
					errs = append(errs, node.Restart())
				}
				return errors.Join(append(errs, cluster.AwaitStable(locktest.Soon))...)
			})
		},
	})
}

func restartEmpty(t *testing.T, rdb redis.UniversalClient, restart func() error) {
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 15 * time.Second}) // longer than Redis is away
	holders, keys := make(map[*script.Mode]*locktest.Client), make(map[*script.Mode]string)
	for _, m := range script.Modes {
		holders[m], keys[m] = locktest.Connect(t, s), locktest.NewKey()
		holders[m].Hold(keys[m], m.Option, "OWNER", "me")
	}
	permits, holder := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
	holder.Permit(permits)
	if err := restart(); err != nil {
		t.Fatal(err)
	}
	for _, m := range script.Modes {
		locktest.Want(t, locktest.Receive(t, holders[m].Losses, 5*time.Second), keys[m]+" gone")
		locktest.Want(t, holders[m].Do("LOCK.RELEASE", keys[m], "OWNER", "me"), "-"+refusal.NotHeld)
	}
	locktest.Want(t, locktest.Receive(t, holder.Losses, 5*time.Second), permits+" gone")
	for _, m := range script.Modes {
		holders[m] = locktest.Connect(t, s)
		holders[m].Hold(keys[m], m.Option)
	}
	renewals := s.Stats().Renewals
	s.Watchdog.CheckAll()
	locktest.Eventually(t, 5*time.Second, "they are renewed", func() bool {
		return s.Stats().Renewals >= renewals+int64(len(script.Modes))
	})
	for _, m := range script.Modes {
		locktest.Want(t, locktest.Connect(t, s).Do(append([]string{"LOCK.ACQUIRE", keys[m]},
			locktest.ExclusiveOptions(m)...)...), "$-1")
		locktest.Want(t, holders[m].Do("LOCK.RELEASE", keys[m]), ":1")
		locktest.WantNothing(t, rdb, keys[m], holders[m])
	}
}

// TestDeadRedisIsReportedInTime: No command hangs when Redis is dead. (Redisson: testRedisFailed.)
func TestDeadRedisIsReportedInTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Start(t, locktest.DialServer(t, server.Addr), lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	holder, key := locktest.Connect(t, s), locktest.NewKey()
	token := strconv.FormatInt(holder.Token(key, "OWNER", "me"), 10)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]func(*testing.T))
	for _, command := range []string{
		"LOCK.ACQUIRE other", "LOCK.ACQUIRE other BLOCK 300", "LOCK.ACQUIRE other FAIR BLOCK 300",
		"LOCK.ACQUIRE other READ", "LOCK.ACQUIRE other WRITE",
		"LOCK.MACQUIRE 2 other another", "LOCK.MACQUIRE 3 a b c QUORUM 2", "LOCK.RELEASE " + key + " OWNER you",
		"LOCK.ATTACH " + key + " OWNER me TOKEN " + token,
		"LOCK.CHECK other TOKEN 1", "LOCK.INFO " + key, "LOCK.BREAK " + key, "LOCK.EXTEND other 1000 TOKEN 1",
		"LOCK.MRELEASE 1 " + key + " OWNER you",
		"SEM.INIT s 1", "SEM.RESIZE s 1", "SEM.ACQUIRE s", "SEM.ACQUIRE s BLOCK 300",
		"SEM.RELEASE s " + locktest.PermitNumber(1), "SEM.INFO s", "SEM.TAKE s",
		"SEM.TAKE s BLOCK 300", "SEM.GIVE s", "LATCH.SET l 1", "LATCH.DOWN l", "LATCH.GET l", "LATCH.AWAIT l BLOCK 300",
	} {
		tests[command] = func(t *testing.T) {
			began := time.Now()
			reply := locktest.Connect(t, s).Do(strings.Fields(command)...)
			if took := time.Since(began); !strings.HasPrefix(reply, "-LOCKTIMEOUT ") || took > locktest.Soon {
				t.Errorf("got %q after %v", reply, took)
			}
		}
	}
	locktest.RunParallel(t, tests)
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
}

// TestBlockIsKeptWhileRedisIsSilent: The first attempt takes no longer than BLOCK plus the time for
// a reply.
func TestBlockIsKeptWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Start(t, locktest.DialServer(t, server.Addr), lockcmd.Config{UpstreamTimeout: 10 * time.Minute})
	locktest.Connect(t, s).Token(locktest.NewKey()) // Redis knows the scripts
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]func(*testing.T))
	for _, command := range []string{"LOCK.ACQUIRE other BLOCK 100", "SEM.ACQUIRE s BLOCK 100",
		"SEM.TAKE s BLOCK 100", "LATCH.AWAIT l BLOCK 100"} {
		tests[command] = func(t *testing.T) {
			locktest.WantPrefix(t, locktest.Receive(t, locktest.Connect(t, s).Start(strings.Fields(command)...),
				locktest.Soon), "-LOCKTIMEOUT ")
		}
	}
	locktest.RunParallel(t, tests)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
}
