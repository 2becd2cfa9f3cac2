package event_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/renewal"
)

// TestR27AwaitLossOnAnotherLeashIsWokenByTheEnd: AWAITLOSS on another Leash is woken by the end of
// the hold. It does not have to wait for its next periodic check.
func TestR27AwaitLossOnAnotherLeashIsWokenByTheEnd(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		carrier, other := locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		tests := make(map[string]func(*testing.T))
		for name, end := range map[string]func(a *locktest.Client, key string) string{
			"": func(a *locktest.Client, key string) string { return a.Do("LOCK.RELEASE", key) },
			renewal.ReasonBroken: func(a *locktest.Client,
				key string) string {
				return locktest.Connect(t, other).Do("LOCK.BREAK", key)
			},
			hold.ReasonIdle: func(a *locktest.Client, _ string) string {
				a.GoSilent()
				return ":1"
			},
		} {
			for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
				tests[name+" "+mode] = func(t *testing.T) {
					a, key := locktest.Connect(t, carrier), locktest.NewKey()
					// with this TTL the periodic check comes after a minute or more
					terms := append([]string{key, "TTL", "600000"}, strings.Fields(mode)...)
					if name == hold.ReasonIdle {
						terms = append(terms, "IDLE", "100")
					}
					token := a.Token(terms...)
					ask := []string{"LOCK.AWAITLOSS", key, "TOKEN", fmt.Sprint(token), "BLOCK", "0"}
					h := carrier.Holds.Find(locktest.LockOf(key), hold.Selector{Token: token}.Means)
					var reply <-chan string
					var asked time.Time
					locktest.Eventually(t, locktest.Soon, "the carrier's Leash knows", func() bool {
						if time.Since(asked) > 5*time.Second { // a busy machine loses messages
							reply, asked = locktest.Connect(t, other).Start(ask...), time.Now()
						}
						return h.Details().Watched
					})
					// The next waiter gets the lock by a hand-over, which publishes nothing on the
					// lock's channel. Neither does the end of a READ hold while another reader
					// holds the lock.
					var next <-chan string
					switch b := locktest.Connect(t, carrier); mode {
					case "READ":
						b.Token(key, mode)
					case "WRITE":
						next = b.Await(carrier, 1, key, "BLOCK", "0", mode)
					default:
						next = b.Await(carrier, 1, key, "BLOCK", "0")
					}
					locktest.Eventually(t, locktest.Soon, "it listens", func() bool {
						return other.Events.LastMessage(locktest.LockMode(mode).Channel(key)) != 0
					})
					if got := end(a, key); got != ":1" {
						t.Fatal(got)
					}
					answer := "$-1"
					if name != "" {
						answer = name
					}
					if got := locktest.Woken(t, reply); !strings.Contains(got, answer) {
						t.Errorf("got %q", got)
					}
					if next != nil {
						locktest.TokenOf(t, locktest.Receive(t, next, locktest.Soon))
					}
				}
			}
		}
		locktest.RunParallel(t, tests)
		locktest.Eventually(t, locktest.Soon, "nobody listens any more",
			func() bool { return other.Events.Channels() == 0 })
	})
}
