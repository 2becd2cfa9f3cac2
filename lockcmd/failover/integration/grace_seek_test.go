package failover_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// TestR2GraceWaitsForARestore: A new master has forgotten a hold, and its Leash will restore it. A
// command about it on another Leash waits for that and does not report the hold as missing.
func TestR2GraceWaitsForARestore(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for name, c := range map[string]struct {
		take []string
		ask  func(key, token string) []string
		want string
	}{
		"CHECK": {nil, func(key, token string) []string { return []string{"LOCK.CHECK", key, "TOKEN", token} }, ":1"},
		"EXTEND": {[]string{"LEASE", "600000"}, func(key, token string) []string {
			return []string{"LOCK.EXTEND", key, "90000", "TOKEN", token}
		}, ":90000"},
		"ATTACH": {nil, func(key, token string) []string {
			return []string{"LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token}
		}, ":"},
		"RELEASE": {nil, func(key, token string) []string { return []string{"LOCK.RELEASE", key, "TOKEN", token} },
			":1"},
		"BREAK": {nil, func(key, _ string) []string { return []string{"LOCK.BREAK", key} }, ":1"},
		"AWAITLOSS": {nil, func(key, token string) []string {
			return []string{"LOCK.AWAITLOSS", key, "TOKEN", token, "BLOCK", "10000"}
		}, "$-1"},
	} {
		tests[name] = func(t *testing.T) {
			locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
				results := &locktest.ScriptCounter{Counted: script.ByName("inspect")}
				cfg := locktest.GraceConfig()
				cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
				s := locktest.Start(t, rdb, cfg, locktest.Graceful)
				// a busy machine restores the hold late
				manySeeks := func(s *lockcmd.Service) { s.Releaser.MaxSeeks = 1000 }
				other, key := locktest.Start(t, rdb, cfg, locktest.Graceful, manySeeks, locktest.PatientBreak,
					results.Watch),
					locktest.NewKey()
				a, b := locktest.Connect(t, s), locktest.Connect(t, other)
				token := strconv.FormatInt(a.Token(append([]string{key, "OWNER", "me"}, c.take...)...), 10)
				defer locktest.BeginGrace(t, other, key)()
				// before Forget: a stalled machine may check the hold at any time
				defer locktest.BeginGrace(t, s, key)()
				locktest.Forget(t, rdb, key)
				before := results.Calls.Load()
				reply := b.Start(c.ask(key, token)...)
				locktest.Eventually(t, locktest.Soon, "it has tried, and tries again", func() bool {
					return results.Calls.Load() > before+1 || len(reply) > 0
				})
				s.Watchdog.CheckAll()
				locktest.WantPrefix(t, locktest.Receive(t, reply, locktest.Soon), c.want)
				if name != "BREAK" && len(a.Losses) > 0 {
					t.Error("it was lost")
				}
			})
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR2GraceDoesNotWaitForAnEndedHold: A command does not wait for a hold that ended before the
// current one was granted. If no Leash restores a hold, the command reports it as missing after its
// time.
func TestR2GraceDoesNotWaitForAnEndedHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		results, cfg := &locktest.ScriptCounter{Counted: script.ByName("inspect")}, locktest.GraceConfig()
		s, key := locktest.Start(t, rdb, cfg, locktest.Graceful, results.Watch), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		stale := strconv.FormatInt(a.Token(key), 10)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		b.Token(key)
		defer locktest.BeginGrace(t, s, key)()
		before := results.Calls.Load()
		locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", stale), ":0")
		locktest.WantPrefix(t, a.Do("LOCK.RELEASE", key, "TOKEN", stale), "-LOCKNOTHELD")
		locktest.WantPrefix(t, a.Do("LOCK.AWAITLOSS", key, "TOKEN", stale, "BLOCK", "0"), "-LOCKNOTHELD")
		if n := results.Calls.Load() - before; n != 3 {
			t.Errorf("Redis was asked %d times by three commands", n)
		}
		locktest.WantPrefix(t, a.Do("LOCK.AWAITLOSS", key+"none", "TOKEN", stale, "BLOCK", "50"), "-LOCKNOTHELD")
	})
}
