package locks_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR28OnDisconnect covers what happens to a client's locks, by how its connection ends and by
// --on-disconnect (R28).
func TestR28OnDisconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	endings := map[string]func(t *testing.T, l *proxytest.Leash, c *redistest.Client, conn *net.TCPConn){
		"FIN": func(_ *testing.T, _ *proxytest.Leash, c *redistest.Client, _ *net.TCPConn) { c.Close() },
		"RST": func(_ *testing.T, _ *proxytest.Leash, c *redistest.Client, conn *net.TCPConn) {
			_ = conn.SetLinger(0)
			c.Close()
		},
		"silence, as the kernel finds": func(t *testing.T, _ *proxytest.Leash, _ *redistest.Client,
			conn *net.TCPConn) {
			redistest.Vanish(t, conn)
		},
		"silence, as Leash finds": func(t *testing.T, l *proxytest.Leash, c *redistest.Client, conn *net.TCPConn) {
			other, list := l.Dial(t), "list:"+conn.LocalAddr().String()
			if err := c.Send(redistest.Command("BLPOP", list, "0")); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "it blocks", func() bool {
				return strings.Contains(proxytest.Text(t, other.Reply(t, "CLIENT", "LIST")), "cmd=blpop")
			})
			redistest.Vanish(t, conn)
			other.Want(t, ":1\r\n", "LPUSH", list, "x")
			other.Close()
		},
	}
	stays := map[string]map[string]bool{
		"auto":    {"FIN": false, "RST": true, "silence, as the kernel finds": true, "silence, as Leash finds": true},
		"release": {},
		"expire":  {"FIN": true, "RST": true, "silence, as the kernel finds": true, "silence, as Leash finds": true},
	}
	var judge []func()
	for setting, stays := range stays {
		for name, end := range endings {
			key := fmt.Sprintf("%s: %s", setting, name)
			l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(10*time.Minute),
				func(o *proxytest.Options) {
					o.Front.OnDisconnect, o.Front.PeerTimeout = setting, 4*time.Second
				})
			c, conn := proxytest.SilentPeer(t, l)
			proxytest.Token(t, c, key)
			end(t, l, c, conn)
			judge = append(judge, func() { // when all have begun: silence takes its time
				proxytest.Eventually(t, key+": the session ends", func() bool { return l.Clients() == 0 })
				l.Stop() // what is released has been
				if got := redis.Client().Exists(t.Context(), key).Val() == 1; got != stays[name] {
					t.Errorf("%s: the lock stays %v; the log:\n%s", key, got, l.Logs)
				}
			})
		}
	}
	for _, judge := range judge {
		judge()
	}
}
