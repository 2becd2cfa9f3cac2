package proxy

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestR28OnDisconnect covers what happens to a client's locks, by how its connection ends and by
// --on-disconnect (R28).
func TestR28OnDisconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	endings := map[string]func(t *testing.T, l *leash, c *redistest.Client, conn *net.TCPConn){
		"FIN": func(_ *testing.T, _ *leash, c *redistest.Client, _ *net.TCPConn) { c.Close() },
		"RST": func(_ *testing.T, _ *leash, c *redistest.Client, conn *net.TCPConn) {
			_ = conn.SetLinger(0)
			c.Close()
		},
		"silence, as the kernel finds": func(t *testing.T, _ *leash, _ *redistest.Client,
			conn *net.TCPConn) {
			vanish(t, conn)
		},
		"silence, as Leash finds": func(t *testing.T, l *leash, c *redistest.Client, conn *net.TCPConn) {
			other, list := l.dial(t), "list:"+conn.LocalAddr().String()
			if err := c.Send(redistest.Command("BLPOP", list, "0")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it blocks", func() bool {
				return strings.Contains(text(t, do(t, other, "CLIENT", "LIST")), "cmd=blpop")
			})
			vanish(t, conn)
			want(t, other, ":1\r\n", "LPUSH", list, "x")
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
			l := startLeash(t, []string{redis.Addr}, watchdog(10*time.Minute), func(o *options) {
				o.front.OnDisconnect, o.front.PeerTimeout = setting, 4*time.Second
			})
			c, conn := silentPeer(t, l)
			token(t, c, key)
			end(t, l, c, conn)
			judge = append(judge, func() { // when all have begun: silence takes its time
				eventually(t, key+": the session ends", func() bool { return l.clients() == 0 })
				l.stop() // what is released has been
				if got := redis.Client().Exists(t.Context(), key).Val() == 1; got != stays[name] {
					t.Errorf("%s: the lock stays %v; the log:\n%s", key, got, l.logs)
				}
			})
		}
	}
	for _, judge := range judge {
		judge()
	}
}
