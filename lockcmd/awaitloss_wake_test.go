package lockcmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR27AwaitLossOnAnotherLeashIsWokenByTheEnd: AWAITLOSS on another Leash is woken by the end of
// the hold. It does not have to wait for its next periodic check.
func TestR27AwaitLossOnAnotherLeashIsWokenByTheEnd(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		carrier, other := leash(t, rdb, Config{}), leash(t, rdb, Config{}, slowRetries)
		tests := make(map[string]func(*testing.T))
		for name, end := range map[string]func(a *conn, key string) string{
			"":                   func(a *conn, key string) string { return a.do("LOCK.RELEASE", key) },
			renewal.ReasonBroken: func(a *conn, key string) string { return connect(t, other).do("LOCK.BREAK", key) },
			hold.ReasonIdle: func(a *conn, _ string) string {
				a.goSilent()
				return ":1"
			},
		} {
			for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
				tests[name+" "+mode] = func(t *testing.T) {
					a, key := connect(t, carrier), newKey()
					// with this TTL the periodic check comes after a minute or more
					terms := append([]string{key, "TTL", "600000"}, strings.Fields(mode)...)
					if name == hold.ReasonIdle {
						terms = append(terms, "IDLE", "100")
					}
					token := a.token(terms...)
					ask := []string{"LOCK.AWAITLOSS", key, "TOKEN", fmt.Sprint(token), "BLOCK", "0"}
					h := carrier.Holds.Find(lockOf(key), hold.Selector{Token: token}.Means)
					var reply <-chan string
					var asked time.Time
					eventually(t, soon, "the carrier's Leash knows", func() bool {
						if time.Since(asked) > 5*time.Second { // a busy machine loses messages
							reply, asked = connect(t, other).start(ask...), time.Now()
						}
						return h.Details().Watched
					})
					// The next waiter gets the lock by a hand-over, which publishes nothing on the
					// lock's channel. Neither does the end of a READ hold while another reader
					// holds the lock.
					var next <-chan string
					switch b := connect(t, carrier); mode {
					case "READ":
						b.token(key, mode)
					case "WRITE":
						next = b.await(carrier, 1, key, "BLOCK", "0", mode)
					default:
						next = b.await(carrier, 1, key, "BLOCK", "0")
					}
					eventually(t, soon, "it listens", func() bool {
						return other.Events.LastMessage(lockMode(mode).Channel(key)) != 0
					})
					if got := end(a, key); got != ":1" {
						t.Fatal(got)
					}
					answer := "$-1"
					if name != "" {
						answer = name
					}
					if got := woken(t, reply); !strings.Contains(got, answer) {
						t.Errorf("got %q", got)
					}
					if next != nil {
						tokenOf(t, receive(t, next, soon))
					}
				}
			}
		}
		runParallel(t, tests)
		eventually(t, soon, "nobody listens any more", func() bool { return other.Events.Channels() == 0 })
	})
}

func lockMode(option string) *script.Mode {
	for _, m := range script.Modes {
		if m.Option == option {
			return m
		}
	}
	return nil
}
