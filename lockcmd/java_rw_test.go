package lockcmd_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

func TestReadWriteWithRedisson(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, j, k := locktest.Connect(t, s), locktest.NewJavaRW(t, rdb, key, "1"), locktest.NewJavaRW(t, rdb, key, "2")

		// readers share the lock, Java or Leash first
		j.In(j.Read(30 * time.Second))
		a.Token(key, "READ", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		k.In(k.Read(30 * time.Second))
		k.Out(k.Write(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.Unread() != int64(0) || k.Unread() != int64(0) {
			t.Error("java's release did not see the others")
		}
		k.Out(k.Write(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		j.In(j.Read(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.Unread() != int64(1) || locktest.Exists(t, rdb, key) {
			t.Error("the lock is still there")
		}

		// writers exclude each other
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "WRITE", "OWNER", "me")
		j.Out(j.Write(30 * time.Second))
		j.Out(j.Read(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		j.In(j.Write(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		j.In(j.Read(30 * time.Second)) // Java downgrades
		if j.Unwrite() != int64(1) {
			t.Error("java could not release")
		}
		a.Token(key, "READ")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		if j.Unread() != int64(0) {
			t.Error("java's release did not see ours")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")

		// Leash downgrades
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		j.Out(j.Read(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		j.In(j.Read(30 * time.Second))
		k.Out(k.Write(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if j.Unread() != int64(1) {
			t.Error("java's was not the last")
		}
		if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 || len(a.Losses) != 0 {
			t.Errorf("%d keys are left, %d losses", n, len(a.Losses))
		}
	})
}
