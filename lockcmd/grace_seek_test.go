package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
			both(t, func(t *testing.T, rdb redis.UniversalClient) {
				results := &scriptCounter{script: script.ByName("inspect")}
				rdb.(interface{ AddHook(redis.Hook) }).AddHook(results)
				cfg := graceConfig()
				cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
				s := leash(t, rdb, cfg, graceful)
				cfg.Links = noDirectPath{}
				// a busy machine restores the hold late
				manySeeks := func(s *Service) { s.Releaser.MaxSeeks = 1000 }
				other, key := leash(t, rdb, cfg, graceful, manySeeks, patientBreak), newKey()
				a, b := connect(t, s), connect(t, other)
				token := strconv.FormatInt(a.token(append([]string{key, "OWNER", "me"}, c.take...)...), 10)
				defer beginGrace(t, other, key)()
				forget(t, rdb, key)
				before := results.calls.Load()
				reply := b.start(c.ask(key, token)...)
				eventually(t, soon, "it has tried, and tries again", func() bool {
					return results.calls.Load() > before+1
				})
				defer beginGrace(t, s, key)()
				s.Watchdog.CheckAll()
				wantPrefix(t, receive(t, reply, soon), c.want)
				if name != "BREAK" && len(a.losses) > 0 {
					t.Error("it was lost")
				}
			})
		}
	}
	runParallel(t, tests)
}

// TestR2GraceDoesNotWaitForAnEndedHold: A command does not wait for a hold that ended before the
// current one was granted. If no Leash restores a hold, the command reports it as missing after its
// time.
func TestR2GraceDoesNotWaitForAnEndedHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		results, cfg := &scriptCounter{script: script.ByName("inspect")}, graceConfig()
		rdb.(interface{ AddHook(redis.Hook) }).AddHook(results)
		cfg.Links = noDirectPath{}
		s, key := leash(t, rdb, cfg, graceful), newKey()
		a, b := connect(t, s), connect(t, s)
		stale := strconv.FormatInt(a.token(key), 10)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		b.token(key)
		defer beginGrace(t, s, key)()
		before := results.calls.Load()
		want(t, a.do("LOCK.CHECK", key, "TOKEN", stale), ":0")
		wantPrefix(t, a.do("LOCK.RELEASE", key, "TOKEN", stale), "-LOCKNOTHELD")
		wantPrefix(t, a.do("LOCK.AWAITLOSS", key, "TOKEN", stale, "BLOCK", "0"), "-LOCKNOTHELD")
		if n := results.calls.Load() - before; n != 3 {
			t.Errorf("Redis was asked %d times by three commands", n)
		}
		wantPrefix(t, a.do("LOCK.AWAITLOSS", key+"none", "TOKEN", stale, "BLOCK", "50"), "-LOCKNOTHELD")
	})
}
