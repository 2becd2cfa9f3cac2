package lockcmd

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// TestAMissingKeyIsNamed: If Leash's own user may not access a key of a lock, the error names it.
func TestAMissingKeyIsNamed(t *testing.T) {
	t.Parallel()
	admin := dialServer(t, redistest.Start(t).Addr)
	setUser := func(keys ...any) {
		t.Helper()
		if err := admin.Do(t.Context(),
			append([]any{"ACL", "SETUSER", "limited", "reset", "on", ">pw", "&*", "+@all"},
				keys...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setUser("~*")
	opt := *admin.Options()
	opt.Username, opt.Password = "limited", "pw"
	rdb := redis.NewClient(&opt)
	t.Cleanup(func() { rdb.Close() })
	a := connect(t, leash(t, rdb, Config{}))
	const prefix = "-NOPERM Leash's own user has no permissions to access "
	setUser("~k")
	want(t, a.do("LOCK.ACQUIRE", "k"), prefix+"the key 'redisson_lock_token:{k}'")
	want(t, a.do("LOCK.ACQUIRE", "l", "BLOCK", "100"), prefix+"the key 'l'")
	want(t, a.do("LATCH.SET", "l", "1"), prefix+"the key 'l'")
	setUser("~k", "~redisson_*")
	want(t, a.do("LOCK.ACQUIRE", "k", "READ"), prefix+"the key '{k}:leash'")
	want(t, a.do("SEM.ACQUIRE", "k"), prefix+"the key '{k}:timeout'")
	setUser("~k", "~redisson_*", "~{k}:leash")
	want(t, a.do("LOCK.ACQUIRE", "k", "READ"), prefix+"the key '{k}:leash:turns'")
	setUser("~k", "~redisson_*", "~{k}:leash", "~{k}:leash:turns")
	want(t, a.do("LOCK.ACQUIRE", "k", "READ"), prefix+"a helper key of 'k'")
	wantNothingLeft(t, admin, "k")
}
