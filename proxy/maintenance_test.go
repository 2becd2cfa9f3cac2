package proxy

import (
	"regexp"
	"testing"
	"time"

	"leash/internal/redistest"
)

var movingPush = regexp.MustCompile(`^>4\r\n\$6\r\nMOVING\r\n:\d+\r\n:5\r\n_\r\n$`)

// TestMaintenanceNotifications checks who is told before a stop: clients that asked for it, in
// RESP3, without a lock.
func TestMaintenanceNotifications(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr})
	three := func() *redistest.Client {
		c := l.dial(t)
		do(t, c, "HELLO", "3")
		return c
	}
	asks := func() *redistest.Client {
		c := three()
		want(t, c, "+OK\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip")
		return c
	}
	told, silent, holder, off, reset, back, two := asks(), three(), asks(), asks(), asks(), asks(), l.dial(t)
	want(t, two, "-"+msgMaintenancePushes+"\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON")
	token(t, holder, "k")
	want(t, off, "+OK\r\n", "client", "maint_notifications", "off")
	want(t, reset, "+RESET\r\n", "RESET")
	do(t, reset, "HELLO", "3")
	do(t, back, "HELLO", "2")

	l.AnnounceStop(999 * time.Millisecond) // too short to move
	l.AnnounceStop(5900 * time.Millisecond)
	if got, err := told.Read(); err != nil || !movingPush.MatchString(got) {
		t.Errorf("told %q, %v", got, err)
	}
	for name, c := range map[string]*redistest.Client{
		"told": told, "silent": silent, "holder": holder, "off": off, "reset": reset, "back": back, "two": two,
	} {
		if got := do(t, c, "PING"); got != "+PONG\r\n" {
			t.Errorf("%s: the reply to PING is %q", name, got)
		}
	}
}

func TestMaintenanceNotificationsRefuses(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c := l.dial(t)
	for _, args := range [][]string{
		{"x"}, {"OFF", "x"}, {"ON", "moving-endpoint-type"}, {"ON", "x", "none"},
		{"ON", "moving-endpoint-type", "none", "x"},
	} {
		want(t, c, "-ERR syntax error\r\n", append([]string{"CLIENT", "MAINT_NOTIFICATIONS"}, args...)...)
	}
	want(t, c, "-"+msgEndpointType+"\r\n", "CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "x")
	want(t, c, "-ERR wrong number of arguments for 'client|maint_notifications' command\r\n", "CLIENT", "MAINT_NOTIFICATIONS")
}
