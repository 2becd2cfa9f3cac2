package proxy

import (
	"testing"

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
	l := startLeash(t, []string{s.Addr}, func(o *options) {
		o.up.User, o.up.Password, o.front.TrustClients = "leash", "pw", true
	})
	c, direct := l.dial(t), redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "AUTH", "leash", "pw")
	for _, args := range [][]string{
		{"CLIENT", "UNBLOCK", "1"}, {"CLIENT", "KILL", "ID", "1"}, {"CLIENT", "LIST"}, {"PING"}, {"ECHO", "a"},
		{"PUBLISH", "c", "m"}, {"WAIT", "0", "0"},
		{"CLUSTER", "SLOTS"}, {"PUBSUB", "NUMSUB"},
	} {
		want(t, c, direct.Do(args...), args...)
	}
	want(t, c, "+OK\r\n", "SET", "k", "v")
	admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "+ping", "+echo")
	eventually(t, "the right that was given holds", func() bool { return do(t, c, "PING") == "+PONG\r\n" })
}

// TestPingWhileRedisIsSilent checks that Leash answers PING when Redis does not. While Redis
// answers, PING needs the user's right.
func TestPingWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := startLeash(t, []string{s.Addr})
	c := l.dial(t)
	want(t, c, "+PONG\r\n", "PING")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	defer s.Resume()
	for range 3 {
		want(t, c, "+PONG\r\n", "PING")
	}
}
