package info_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
)

// TestFiguresCountCommands checks the counts of commands and errors of every class that one Redis
// can show, and what the end of a client adds.
func TestFiguresCountCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	c := l.Dial(t)
	for _, args := range [][]string{
		{"SET", "k", "v"}, {"GET", "k"}, {"INCR", "k"}, {"LPUSH", "k", "x"}, // 2 errors
		{"MGET", "k", "l"}, {"CLIENT", "GETNAME"}, {"CLIENT", "ID", "x"}, // 1 error
		{"SHUTDOWN"}, {"NOSUCHCOMMAND"}, {"LOCK.ACQUIRE", "lock"}, {"LOCK.RELEASE", "other"}, // 1 each but for ACQUIRE
		{"DBSIZE"}, {"BLPOP", "list", "0.01"}, {"BLPOP", "k", "0"}, // 1 error
		{"TIME"}, {"SUBSCRIBE"}, // 1 error
		{"MULTI"}, {"GET", "k"}, {"EXEC"},
	} {
		c.Reply(t, args...)
	}
	c.Want(t, "+PONG\r\n", "PING")
	wantCommands := map[string]int64{
		"relayed": 5, "split": 1, "answered": 2, "refused": 1, "unknown": 1, "leash_only": 2,
		"every_master": 1, "pinned": 4, "any_node": 1, "subscriber": 1,
	}
	wantErrors := map[string]int64{
		"relayed": 2, "answered": 1, "refused": 1, "unknown": 1, "leash_only": 1, "pinned": 1, "subscriber": 1,
	}
	proxytest.Eventually(t, "the commands are counted", func() bool { f := l.Figures(); return f.Commands["answered"] >= wantCommands["answered"]+1 })
	f := l.Figures()
	wantCommands["answered"]++ // the PING
	if got, want := fmt.Sprint(f.Commands), fmt.Sprint(wantCommands); got != want {
		t.Errorf("commands: got %s, want %s", got, want)
	}
	for _, class := range proxy.CommandClasses() {
		if f.Errors[class] != wantErrors[class] {
			t.Errorf("errors of %s: got %d, want %d", class, f.Errors[class], wantErrors[class])
		}
	}
	if f.Clients != 1 || f.Accepted != 1 || f.ReceivedBytes == 0 || f.SentBytes == 0 || f.Upstream.SharedLinks == 0 {
		t.Errorf("got %+v", f)
	}
	if f.Locks.HoldsByMode["plain"] != 1 || f.Locks.Acquires != 1 {
		t.Errorf("locks: got %+v", f.Locks)
	}
	c.Want(t, "+OK\r\n", "QUIT")
	proxytest.Eventually(t, "the end is counted", func() bool { return l.Figures().Disconnections["quit"] == 1 })
}

// TestFiguresKnowWhetherRedisAnswers checks Ready, and the count of usable masters.
func TestFiguresKnowWhetherRedisAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	proxytest.Eventually(t, "it is ready", l.Ready)
	if u := l.Figures().Upstream; u.Masters != 1 || u.Usable != 1 {
		t.Errorf("got %+v", u)
	}
	proxytest.Eventually(t, "it answers", func() bool { return l.Answers(t.Context()) })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is not ready", func() bool { return !l.Ready() && l.Figures().Upstream.Usable == 0 })
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is ready", l.Ready)
	proxytest.Eventually(t, "a PING is timed", func() bool { return l.Figures().Upstream.RoundTrips.Sum > time.Duration(0) })
}

// TestAnswersAsksSilentMasters checks that masters which are connected and say nothing count as
// away long before their connections are given up, and that one that answers is enough.
func TestAnswersAsksSilentMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 3})
	l := proxytest.Start(t, cluster.Addrs(), func(o *proxytest.Options) { o.Upstream.UpstreamTimeout = time.Hour })
	proxytest.Eventually(t, "all masters answer", func() bool { return l.Figures().Upstream.Usable == 3 })
	masters := cluster.Masters()
	for _, m := range masters[1:] {
		if err := m.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Eventually(t, "two are silent", func() bool { return l.Figures().Upstream.Usable == 1 })
	answers := func() bool { return l.Answers(t.Context()) }
	proxytest.Eventually(t, "one master is enough", answers)
	if err := masters[0].Pause(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "no master answers", func() bool { return !answers() })
	proxytest.Eventually(t, "Ready knows it, too", func() bool { return !l.Ready() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l.Answers(ended) {
		t.Error("no master answers, and nobody waits")
	}
	if err := masters[2].Resume(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "a master answers again", answers)
}
