package program

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestLockTimeoutSaysWhatRedisSays: while Redis refuses scripts, a lock command gets Redis's own
// reason as its error, and the log has it once. A release is repeated until Redis takes it.
func TestLockTimeoutSaysWhatRedisSays(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code  string
		begin func(t *testing.T, direct *redistest.TestClient)
		end   func(t *testing.T, direct *redistest.TestClient)
	}{
		{"READONLY", func(_ *testing.T, direct *redistest.TestClient) {
			direct.Want("+OK\r\n", "REPLICAOF", "127.0.0.1", "1")
		}, func(_ *testing.T, direct *redistest.TestClient) { direct.Want("+OK\r\n", "REPLICAOF", "NO", "ONE") }},
		{"MISCONF", failSaves, repairSaves},
	} {
		t.Run(row.code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			listen := redistest.FreeAddr(t)
			var log logFile
			begin(t, &log, "--listen", listen, "--upstream", s.Addr, "--drain-timeout", "0", "--upstream-timeout", "2s")
			eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
			direct, c := redistest.Connect(t, s.Addr), redistest.Connect(t, listen)
			c.Want(":1\r\n", "SEM.INIT", "sem", "1")
			holder := redistest.Connect(t, listen)
			if reply := holder.Do("LOCK.ACQUIRE", "held"); reply[0] != ':' {
				t.Fatal(reply)
			}
			row.begin(t, direct)
			for i, command := range []string{"LOCK.ACQUIRE k%d", "LOCK.ACQUIRE k%d READ", "LOCK.MACQUIRE 1 k%d", "SEM.ACQUIRE sem", "SEM.GIVE c%d", "LATCH.SET l%d 1"} {
				if strings.Contains(command, "%d") {
					command = fmt.Sprintf(command, i)
				}
				// The reply does not say it if the last attempt had no answer in time.
				reply := ""
				for try := 0; try < 5 && !strings.Contains(reply, ": "+row.code+" "); try++ {
					reply = c.Do(strings.Fields(command)...)
				}
				if !strings.HasPrefix(reply, "-LOCKTIMEOUT ") || !strings.Contains(reply, ": "+row.code+" ") {
					t.Errorf("%s: got %q, want %s in it", command, reply, row.code)
				}
			}
			if reply := holder.Do("LOCK.RELEASE", "held"); !strings.Contains(reply, "repeats the release until it does") {
				t.Errorf("LOCK.RELEASE: got %q", reply)
			}
			row.end(t, direct)
			eventually(t, "the release is repeated", func() bool { return c.Do("LOCK.INFO", "held") == "$-1\r\n" })
			eventually(t, "locks are granted again", func() bool { return c.Do("LOCK.ACQUIRE", "again")[0] == ':' })
			eventually(t, "the log says so", func() bool {
				c.Do("LOCK.ACQUIRE", "again")
				return strings.Contains(log.String(), "redis takes lock scripts again")
			})
			for _, line := range []string{"redis refuses lock scripts", "redis takes lock scripts again"} {
				if n := strings.Count(log.String(), line); n != 1 {
					t.Errorf("%q was logged %d times:\n%s", line, n, log.String())
				}
			}
		})
	}
}

// TestRefusedRenewalsAreLogged: Redis answers renewals, but takes no writes. The holds end when
// their TTL is over, so the log says why before.
func TestRefusedRenewalsAreLogged(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"LOCK.ACQUIRE k", "LOCK.ACQUIRE k READ", "LOCK.ACQUIRE k WRITE", "SEM.ACQUIRE s"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			listen := redistest.FreeAddr(t)
			var log logFile
			begin(t, &log, "--listen", listen, "--upstream", s.Addr, "--drain-timeout", "0", "--watchdog-timeout", "30s")
			eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
			direct, c := redistest.Connect(t, s.Addr), redistest.Connect(t, listen)
			c.Want(":1\r\n", "SEM.INIT", "s", "1")
			if reply := c.Do(strings.Fields(command)...); !granted(reply) {
				t.Fatalf("got %q", reply)
			}
			direct.Want("+OK\r\n", "CONFIG", "SET", "min-replicas-to-write", "1")
			eventually(t, "the log has the reason", func() bool {
				return strings.Contains(log.String(), "redis refuses lock scripts") &&
					strings.Contains(log.String(), "NOREPLICAS Not enough good replicas to write.")
			})
			direct.Want("+OK\r\n", "CONFIG", "SET", "min-replicas-to-write", "0")
			eventually(t, "Redis takes renewals again", func() bool {
				return strings.Contains(log.String(), "redis takes lock scripts again")
			})
			if n := strings.Count(log.String(), "redis refuses lock scripts"); n != 1 {
				t.Errorf("the refusal was logged %d times:\n%s", n, log.String())
			}
		})
	}
}

// TestRenewalsWithoutRightsAreLogged: somebody takes rights from Leash's own user. Its renewals
// fail, and the log says why.
func TestRenewalsWithoutRightsAreLogged(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"-evalsha", "resetkeys"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			direct := redistest.Connect(t, s.Addr)
			direct.Want("+OK\r\n", "ACL", "SETUSER", "leash", "on", ">secret", "~*", "&*", "+@all")
			listen := redistest.FreeAddr(t)
			var log logFile
			begin(t, &log, "--listen", listen, "--upstream", s.Addr, "--drain-timeout", "0", "--watchdog-timeout", "30s",
				"--upstream-user", "leash", "--upstream-password", "secret")
			eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
			c := redistest.Connect(t, listen)
			for _, command := range []string{"LOCK.ACQUIRE k1", "LOCK.ACQUIRE k2 READ"} {
				if reply := c.Do(strings.Fields(command)...); !granted(reply) {
					t.Fatalf("got %q", reply)
				}
			}
			direct.Want("+OK\r\n", "ACL", "SETUSER", "leash", rule)
			eventually(t, "the log has the reason", func() bool {
				return strings.Contains(log.String(), `msg="redis refuses lock scripts"`) &&
					strings.Contains(log.String(), "NOPERM this user has no permissions")
			})
		})
	}
}

// failSaves makes the snapshots of a Redis fail: a directory is where their file should be. Redis
// then refuses writes.
func failSaves(t *testing.T, direct *redistest.TestClient) {
	if err := os.MkdirAll(snapshotPath(direct)+"/x", 0o700); err != nil {
		t.Fatal(err)
	}
	direct.Want("+OK\r\n", "CONFIG", "SET", "save", "100000 1")
	trySave(t, direct, "err")
}

// repairSaves undoes failSaves.
func repairSaves(t *testing.T, direct *redistest.TestClient) {
	if err := os.RemoveAll(snapshotPath(direct)); err != nil {
		t.Fatal(err)
	}
	trySave(t, direct, "ok")
}

// trySave makes a snapshot, which should end with that status.
func trySave(t *testing.T, direct *redistest.TestClient, status string) {
	direct.Do("BGSAVE")
	eventually(t, "a snapshot ends with "+status, func() bool {
		return strings.Contains(direct.Do("INFO", "persistence"), "rdb_last_bgsave_status:"+status)
	})
}

// snapshotPath is the path of the file with the snapshot.
func snapshotPath(direct *redistest.TestClient) string {
	dir := strings.Split(direct.Do("CONFIG", "GET", "dir"), "\r\n")[4]
	return dir + "/dump.rdb"
}
