package upstream_test

import (
	"regexp"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

var movingPush = regexp.MustCompile(`^>4\r\n\$6\r\nMOVING\r\n:\d+\r\n:5\r\n_\r\n$`)

func tellsOfStops(o *proxytest.Options) { o.Front.MaintNotifications = true }

// TestMaintenanceNotifications checks who is told before a stop: clients that asked for it, in
// RESP3, without a lock.
func TestMaintenanceNotifications(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, tellsOfStops)
	three := func() *redistest.Client {
		c := l.Dial(t)
		c.Reply(t, "HELLO", "3")
		return c
	}
	asks := func() *redistest.Client {
		c := three()
		c.Want(t, "+OK\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip")
		return c
	}
	told, silent, holder, off, reset, back, two := asks(), three(), asks(), asks(), asks(), asks(), l.Dial(t)
	two.Want(t, "-ERR CLIENT MAINT_NOTIFICATIONS needs RESP3: send HELLO 3 first\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON")
	proxytest.Token(t, holder, "k")
	off.Want(t, "+OK\r\n", "client", "maint_notifications", "off")
	reset.Want(t, "+RESET\r\n", "RESET")
	reset.Reply(t, "HELLO", "3")
	back.Reply(t, "HELLO", "2")

	l.AnnounceStop(999 * time.Millisecond) // too short to move
	l.AnnounceStop(5900 * time.Millisecond)
	if got, err := told.Read(); err != nil || !movingPush.MatchString(got) {
		t.Errorf("told %q, %v", got, err)
	}
	for name, c := range map[string]*redistest.Client{
		"told": told, "silent": silent, "holder": holder, "off": off, "reset": reset, "back": back, "two": two,
	} {
		if got := c.Reply(t, "PING"); got != "+PONG\r\n" {
			t.Errorf("%s: the reply to PING is %q", name, got)
		}
	}
}

// TestMovingClientsGetNoLocks checks who may take locks after the announcement: not those that were
// told, but those that had a lock or waited for one.
func TestMovingClientsGetNoLocks(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, tellsOfStops)
	asks := func() *redistest.Client {
		c := l.Dial(t)
		c.Reply(t, "HELLO", "3")
		c.Want(t, "+OK\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON")
		return c
	}
	told, holder, waiter := asks(), asks(), asks()
	proxytest.Token(t, holder, "k")
	if err := waiter.Send("LOCK.ACQUIRE k BLOCK 0\r\n"); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Figures().Locks.Waiters == 1 })
	l.AnnounceStop(5 * time.Second)
	if got, err := told.Read(); err != nil || !movingPush.MatchString(got) {
		t.Errorf("told %q, %v", got, err)
	}
	const refused = "-ERR this Leash is shutting down and grants no locks\r\n"
	for _, args := range [][]string{
		{"LOCK.ACQUIRE", "a"}, {"LOCK.MACQUIRE", "1", "a"}, {"LOCK.ATTACH", "a", "TOKEN", "1", "OWNER", "o"},
		{"SEM.ACQUIRE", "a"}, {"SEM.TAKE", "a"},
	} {
		told.Want(t, refused, args...)
	}
	told.Want(t, "+RESET\r\n", "RESET")
	told.Want(t, refused, "LOCK.ACQUIRE", "a")
	proxytest.Token(t, holder, "a")
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Errorf("the waiter got %q, %v", got, err)
	}
}

func TestMaintenanceNotificationsRefuses(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, tellsOfStops)
	c := l.Dial(t)
	for _, args := range [][]string{
		{"x"}, {"OFF", "x"}, {"ON", "moving-endpoint-type"}, {"ON", "x", "none"},
		{"ON", "moving-endpoint-type", "none", "x"},
	} {
		c.Want(t, "-ERR syntax error\r\n", append([]string{"CLIENT", "MAINT_NOTIFICATIONS"}, args...)...)
	}
	c.Want(t, "-ERR Invalid moving-endpoint-type\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "x")
	c.Want(t, "-ERR wrong number of arguments for 'client|maint_notifications' command\r\n", "CLIENT", "MAINT_NOTIFICATIONS")
}
