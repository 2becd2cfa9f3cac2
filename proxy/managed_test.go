package proxy_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestManagedRedis checks that Leash serves a Redis that refuses its management commands to
// everybody, as managed services do. A script of the client's user then answers for its rights.
func TestManagedRedis(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	withheld := strings.Fields("-config -debug -migrate -acl -save -bgsave -bgrewriteaof -shutdown -replicaof -sync -psync")
	for _, n := range cluster.Nodes {
		direct := redistest.Connect(t, n.Addr)
		for _, user := range [][]string{
			{"leash", "~*", "&*", "+@all"}, {"ann", "~ann:*", "&*", "+@all"}, {"dan", "~*", "&*", "+@all"},
			{"eve", "~*", "&*", "+@all", "-eval"}, {"default", "+@all"},
		} {
			rules := append([]string{"ACL", "SETUSER", user[0], "on", ">pw"}, user[1:]...)
			if user[0] == "default" {
				rules[4] = "nopass"
			}
			rules = append(rules, withheld...)
			if user[0] == "dan" {
				rules = append(rules, "-hset")
			}
			direct.Want("+OK\r\n", rules...)
		}
	}
	l := proxytest.Start(t, cluster.Addrs(), func(o *proxytest.Options) {
		o.Upstream.User, o.Upstream.Password = "leash", "pw"
	})
	const (
		denied    = "-NOPERM this user has no permissions to run the 'lock.acquire' command: it needs the right to run 'hset' on its key\r\n"
		unchecked = "-NOPERM Leash cannot check the rights of this user: Leash's own user needs ACL DRYRUN, or this user EVAL\r\n"
	)
	for _, try := range []struct{ user, key, want string }{
		{"ann", "ann:k", ":"}, {"ann", "bob:k", denied}, {"dan", "k", denied}, {"eve", "k", unchecked}, {"", "k", ":"},
	} {
		c := l.Dial(t)
		if try.user != "" {
			c.Want(t, "+OK\r\n", "AUTH", try.user, "pw")
		}
		for range 2 { // the second time, Leash does not try ACL DRYRUN
			if reply := c.Reply(t, "LOCK.ACQUIRE", try.key, "OWNER", "me"); !strings.HasPrefix(reply, try.want) {
				t.Errorf("%s locks %s: %q", try.user, try.key, reply)
			}
		}
	}
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "AUTH", "ann", "pw")
	c.Want(t, "+OK\r\n", "SET", "ann:x", "1")
	if reply := c.Reply(t, "LOCK.MACQUIRE", "2", "ann:1", "ann:2"); reply[0] != '*' {
		t.Errorf("two locks: %q", reply)
	}
	if reply := c.Reply(t, "LOCK.MACQUIRE", "2", "ann:1", "bob:2"); !strings.HasPrefix(reply, "-NOPERM") {
		t.Errorf("a denied lock among two: %q", reply)
	}
	if reply := c.Reply(t, "CONFIG", "GET", "maxmemory"); !strings.HasPrefix(reply, "-NOPERM") {
		t.Errorf("CONFIG: %q", reply)
	}
	if reply := c.Reply(t, "SCAN", "0"); reply[0] != '*' {
		t.Errorf("SCAN: %q", reply)
	}
}
