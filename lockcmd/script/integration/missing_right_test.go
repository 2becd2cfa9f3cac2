package script_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// TestAMissingKeyIsNamed: If Leash's own user may not access a key of a lock, the error names it.
func TestAMissingKeyIsNamed(t *testing.T) {
	t.Parallel()
	admin := locktest.DialServer(t, redistest.Start(t).Addr)
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
	a := locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{}))
	const prefix = "-NOPERM Leash's own user has no permissions to access "
	setUser("~k")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", "k"), prefix+"the key 'redisson_lock_token:{k}'")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", "l", "BLOCK", "100"), prefix+"the key 'l'")
	locktest.Want(t, a.Do("LATCH.SET", "l", "1"), prefix+"the key 'l'")
	setUser("~k", "~redisson_*")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", "k", "READ"), prefix+"the key '{k}:leash'")
	locktest.Want(t, a.Do("SEM.ACQUIRE", "k"), prefix+"the key '{k}:timeout'")
	setUser("~k", "~redisson_*", "~{k}:leash")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", "k", "READ"), prefix+"the key '{k}:leash:turns'")
	setUser("~k", "~redisson_*", "~{k}:leash", "~{k}:leash:turns")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", "k", "READ"), prefix+"a helper key of 'k'")
	locktest.WantNothingLeft(t, admin, "k")
}

// TestAMissingCommandIsNamed: If Leash's own user may not run a command of a lock script, the error
// names that command, also when the script publishes on a channel.
func TestAMissingCommandIsNamed(t *testing.T) {
	t.Parallel()
	admin := locktest.DialServer(t, redistest.Start(t).Addr)
	setUser := func(rights ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*",
			"&redisson_*", "&leash:*", "+@all"}, rights...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setUser()
	opt := *admin.Options()
	opt.Username, opt.Password = "limited", "pw"
	rdb := redis.NewClient(&opt)
	t.Cleanup(func() { rdb.Close() })
	a := locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{}))
	if got := a.Do("LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	setUser("-del")
	locktest.Want(t, a.Do("LOCK.RELEASE", "k"),
		"-NOPERM Leash's own user has no permissions to run the 'del' command on that key")
	setUser("-evalsha")
	reply := a.Do("LOCK.RELEASE", "k")
	locktest.WantPrefix(t, reply, "-NOPERM Leash's own user has no permissions to run the 'evalsha' command")
}
