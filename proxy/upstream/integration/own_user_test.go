package upstream_test

import (
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestRightsOfOwnUser checks that clients that are served as Leash's own user have that
// user's rights, also for commands that Leash answers.
func TestRightsOfOwnUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := redistest.Connect(t, s.Addr)
	denied := []string{"client|unblock", "client|kill", "client|list", "ping", "echo", "publish", "wait",
		"cluster|slots", "pubsub|numsub"}
	rules := []string{"ACL", "SETUSER", "leash", "on", ">pw", "~*", "&*", "+@all"}
	for _, name := range denied {
		rules = append(rules, "-"+name)
	}
	admin.Want("+OK\r\n", rules...)
	l := proxytest.Start(t, []string{s.Addr}, func(o *proxytest.Options) {
		o.Upstream.User, o.Upstream.Password, o.Front.TrustClients = "leash", "pw", true
	})
	c, direct := l.Dial(t), redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "AUTH", "leash", "pw")
	for _, args := range [][]string{
		{"CLIENT", "UNBLOCK", "1"}, {"CLIENT", "KILL", "ID", "1"}, {"CLIENT", "LIST"}, {"PING"}, {"ECHO", "a"},
		{"PUBLISH", "c", "m"}, {"WAIT", "0", "0"},
		{"CLUSTER", "SLOTS"}, {"PUBSUB", "NUMSUB"},
	} {
		c.Want(t, direct.Do(args...), args...)
	}
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "+ping", "+echo")
	proxytest.Eventually(t, "the right that was given holds", func() bool { return c.Reply(t, "PING") == "+PONG\r\n" })
}

// TestPingWhileRedisIsSilent checks that Leash answers PING when Redis does not. While Redis
// answers, PING needs the user's right.
func TestPingWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := proxytest.Start(t, []string{s.Addr})
	c := l.Dial(t)
	c.Want(t, "+PONG\r\n", "PING")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	defer s.Resume()
	for range 3 {
		c.Want(t, "+PONG\r\n", "PING")
	}
}
