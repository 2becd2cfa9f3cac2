package locks_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	lockscript "leash/lockcmd/script"
)

// lockScene has commands that run with all rights, and then steps that are tried with one right
// missing. A number in front names the connection. With "&", the command waits for a lock, and the
// scene goes on without its reply.
type lockScene struct{ before, step string }

var lockScenes = []lockScene{
	{"", "1 LOCK.ACQUIRE k"},
	{"", "1 LOCK.ACQUIRE k LEASE 60000"},
	{"", "1 LOCK.ACQUIRE k OWNER me ID a MAXHOLD 60000"},
	{"1 LOCK.ACQUIRE k OWNER me", "1 LOCK.ACQUIRE k OWNER me"},
	{"1 LOCK.ACQUIRE k OWNER me ID a", "2 LOCK.ACQUIRE k OWNER me ID a"},
	{"1 LOCK.ACQUIRE k", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k OWNER me; 1 LOCK.ACQUIRE k OWNER me", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k OWNER me", "2 LOCK.RELEASE k OWNER me ID r"},
	{"1 LOCK.ACQUIRE k LEASE 60000", "1 LOCK.EXTEND k 90000"},
	{"1 LOCK.ACQUIRE k", "2 LOCK.BREAK k"},
	{"", "1 LOCK.ACQUIRE k READ"},
	{"1 LOCK.ACQUIRE k READ", "2 LOCK.ACQUIRE k READ"},
	{"1 LOCK.ACQUIRE k READ; 2 LOCK.ACQUIRE k READ", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k READ OWNER me; 1 LOCK.ACQUIRE k READ OWNER me", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k READ", "1 LOCK.RELEASE k"},
	{"", "1 LOCK.ACQUIRE k WRITE"},
	{"1 LOCK.ACQUIRE k WRITE OWNER me", "1 LOCK.ACQUIRE k READ OWNER me"},
	{"1 LOCK.ACQUIRE k WRITE OWNER me; 1 LOCK.ACQUIRE k READ OWNER me", "1 LOCK.RELEASE k WRITE"},
	{"1 LOCK.ACQUIRE k WRITE", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k READ LEASE 60000", "1 LOCK.EXTEND k 90000"},
	{"1 LOCK.ACQUIRE k READ", "2 LOCK.BREAK k"},
	{"", "1 LOCK.ACQUIRE k FAIR"},
	{"1 LOCK.ACQUIRE k", "2 LOCK.ACQUIRE k FAIR BLOCK 100"},
	{"1 LOCK.ACQUIRE k", "2 LOCK.ACQUIRE k BLOCK 20"},
	{"", "1 LOCK.MACQUIRE 2 k l"},
	{"1 LOCK.ACQUIRE k OWNER me ID a READ", "2 LOCK.ACQUIRE k OWNER me ID a READ"},
	{"1 SEM.INIT k 2; 1 SEM.ACQUIRE k ID a", "2 SEM.ACQUIRE k ID a"},
	{"1 SEM.INIT k 2", "1 SEM.ACQUIRE k"},
	{"1 SEM.INIT k 2", "1 SEM.ACQUIRE k COUNT 2"},
	{"1 SEM.INIT k 2; 1 SEM.ACQUIRE k", "1 SEM.RELEASE k"},
	{"1 SEM.INIT k 1; 1 SEM.ACQUIRE k; 2& SEM.ACQUIRE k BLOCK 60000", "1 SEM.RELEASE k"},
	{"", "1 SEM.INIT k 2"},
	{"1 SEM.INIT k 2", "1 SEM.RESIZE k 5"},
	{"1 SEM.GIVE k 2", "1 SEM.TAKE k"},
	{"", "1 SEM.GIVE k 2"},
	{"", "1 LATCH.SET k 2"},
	{"1 LATCH.SET k 1", "1 LATCH.DOWN k"},
	{"1 LOCK.ACQUIRE k; 2& LOCK.ACQUIRE k BLOCK 60000", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k WRITE; 2& LOCK.ACQUIRE k WRITE BLOCK 60000", "1 LOCK.RELEASE k"},
	{"1 LOCK.ACQUIRE k READ OWNER me", "2 LOCK.RELEASE k READ OWNER me ID r"},
	{"1 HSET k you:1 1; 1 PEXPIRE k 60000", "1 LOCK.BREAK k"},
	{"1 HSET k mode read you:1 1; 1 SET {k}:you:1:rwlock_timeout:1 1 PX 60000; 1 PEXPIRE k 60000", "1 LOCK.BREAK k"},
	{"1 SEM.INIT k 2; 1 SEM.TAKE k; 1 ZADD {k}:timeout 9000000000000 aaaaaaaaaaaaaaaa",
		"1 SEM.RELEASE k " + strings.Repeat("61", 16)},
	{"1 SEM.INIT k 2", "1 SEM.INFO k"},
	{"1 LOCK.ACQUIRE k READ", "1 LOCK.LIST 0"},
	// no replica has these, so they are undone
	{"", "1 LOCK.ACQUIRE k REPLICAS 1 BLOCK 20"},
	{"", "1 LOCK.ACQUIRE k REPLICAS 1 BLOCK 20 FAIR"},
	{"", "1 LOCK.ACQUIRE k REPLICAS 1 BLOCK 20 READ"},
	{"", "1 LOCK.ACQUIRE k REPLICAS 1 BLOCK 20 WRITE"},
	{"2 LOCK.ACQUIRE k READ", "1 LOCK.ACQUIRE k REPLICAS 1 BLOCK 20 READ"},
}

// start runs the commands before the step. It returns a function that runs a command and one that
// ends the scene.
func (scene lockScene) start(t *testing.T, l *proxytest.Leash) (run func(command string) string, end func()) {
	t.Helper()
	conns := map[string]*redistest.Client{"1": l.Dial(t), "2": l.Dial(t)}
	run = func(command string) string {
		words := strings.Fields(command)
		return conns[words[0]].Reply(t, words[1:]...)
	}
	for before := range strings.SplitSeq(scene.before, "; ") {
		if before == "" {
			continue
		}
		if connection, command, waits := strings.Cut(before, "& "); waits {
			if err := conns[connection].Send(redistest.Command(strings.Fields(command)...)); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "it waits", func() bool {
				return strings.Contains(run("1 INFO leash"), "leash_waiters:1\r\n")
			})
			continue
		}
		if reply := run(before); reply[0] == '-' {
			t.Fatalf("%s: %q", before, reply)
		}
	}
	return run, func() {
		for _, c := range conns {
			c.Close()
		}
		observer := l.Dial(t)
		defer observer.Close()
		proxytest.Eventually(t, "nobody waits", func() bool {
			return strings.Contains(observer.Reply(t, "INFO", "leash"), "leash_waiters:0\r\n")
		})
	}
}

// TestScriptWithoutARightChangesNothing checks that a lock script changes nothing when it is
// answered with an error. Leash's own user lacks each of the commands in turn.
func TestScriptWithoutARightChangesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct := redistest.Connect(t, s.Addr)
	rights := func(change string) {
		direct.Want("+OK\r\n",
			append([]string{"ACL", "SETUSER", "leash", "reset", "on", ">pw", "~*", "&*", "+@all"},
				strings.Fields(change)...)...)
	}
	rights("")
	l := proxytest.Start(t, []string{s.Addr}, func(o *proxytest.Options) {
		o.Upstream.User, o.Upstream.Password = "leash", "pw"
	})
	for _, command := range lockscript.AllCommands() {
		for _, scene := range lockScenes {
			direct.Do("FLUSHALL")
			run, end := scene.start(t, l)
			was := keyspace(direct)
			rights("-" + strings.ToLower(command))
			reply := run(scene.step)
			is := keyspace(direct)
			rights("")
			if strings.Contains(reply, "The user executing the script") {
				t.Errorf("without %s: %s was answered %q, which does not name the right", command, scene.step, reply)
			}
			if reply[0] == '-' && !slices.Equal(was, is) {
				t.Errorf("without %s, after %q: %s was answered %.120q and left\n%s\nof\n%s", command, scene.before,
					scene.step, reply,
					strings.Join(is, "\n"), strings.Join(was, "\n"))
			}
			end()
		}
	}
}

// keyspace returns every key, its value, and whether it has a TTL. It leaves out token counters,
// which only rise, and the message that LOCK.BREAK leaves for the holder before it ends the lock in
// another script. It also leaves out the list of turns: a waiter whose attempt fails leaves it. And
// it leaves out until when permits, and writers that read, are renewed: Leash may renew them at any
// time.
func keyspace(direct *redistest.TestClient) (all []string) {
	reply := strings.Split(direct.Do("KEYS", "*"), "\r\n")
	for i := 2; i < len(reply); i += 2 {
		key := reply[i]
		if strings.HasPrefix(key, "redisson_lock_token:") || strings.HasSuffix(key, ":leash:turns") ||
			strings.HasSuffix(direct.Do("GET", key), "broken\r\n") {
			continue
		}
		ttl := "expires"
		if direct.Do("PTTL", key) == ":-1\r\n" {
			ttl = "stays"
		}
		all = append(all, key+" "+ttl+" "+untilOfRecord.ReplaceAllString(shown(direct, key), "until="))
	}
	slices.Sort(all)
	return all
}

var untilOfRecord = regexp.MustCompile(`until=\d+`)

func shown(direct *redistest.TestClient, key string) string {
	switch kind := direct.Do("TYPE", key); kind {
	case "+hash\r\n":
		return direct.Do("HGETALL", key)
	case "+zset\r\n":
		return direct.Do("ZRANGE", key, "0", "-1") // the scores are times
	case "+list\r\n":
		return direct.Do("LRANGE", key, "0", "-1")
	case "+string\r\n":
		return direct.Do("GET", key)
	default:
		return kind
	}
}
