package acquire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These tests repeat an ACQUIRE of permits with its ID on another connection.

// TestR26UnansweredMoveOfPermitsIsUndone: The repeated ACQUIRE gets no answer. It is undone,
// whatever it has moved or will move.
func TestR26UnansweredMoveOfPermitsIsUndone(t *testing.T) {
	t.Parallel() // mostly waiting
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for _, away := range []bool{false, true} {
			tests[fmt.Sprint(ran, away)] = func(t *testing.T) {
				s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
				from := s
				if away {
					from = straight
				}
				a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
				locktest.Want(t, b.Do("SEM.INIT", key, "3"), ":1")
				acquire := []string{"SEM.ACQUIRE", key, "ID", "1", "COUNT", "2"}
				permits := a.Do(acquire...)
				fault := locktest.Drop(p, ran)(locktest.Running(script.PermitMoveScript, key), faultproxy.Always())
				locktest.Want(t, b.Do(acquire...), "-"+refusal.Unanswered)
				locktest.Want(t, b.Do(acquire...), "-"+refusal.NotAccepted)
				fault.Disarm()
				locktest.Eventually(t, 3*time.Second, "it is undone", func() bool {
					return locktest.RedisOf(straight).ZCard(t.Context(), script.PermitsKey(key)).Val() <= 1 &&
						b.Carrier.Holds() == 0
				})
				locktest.Want(t, b.AskUntilAnswered(acquire...), permits)
				locktest.Eventually(t, 3*time.Second, "they have moved", func() bool {
					return a.Carrier.Holds() == 0 && b.Carrier.Holds() == 2
				})
				locktest.Want(t, locktest.RedisOf(straight).Get(t.Context(), key).Val(), "1")
				b.Carrier.End(lockcmd.Release)
				locktest.Want(t, locktest.RedisOf(straight).Get(t.Context(), key).Val(), "3")
				if len(a.Losses)+len(b.Losses)+len(a.Moved)+len(b.Moved) != 0 {
					t.Error("reported as a loss")
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR7PermitsOfAFailedMoveAreReleased: The repeated ACQUIRE cannot get all of its permits. It
// keeps none.
func TestR7PermitsOfAFailedMoveAreReleased(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, b, c, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	locktest.Want(t, a.Do("SEM.INIT", key, "2"), ":1")
	acquire := []string{"SEM.ACQUIRE", key, "ID", "1", "COUNT", "2"}
	permits := a.Permits(2, acquire[1:]...)
	locktest.Want(t, a.Do("SEM.RELEASE", key, permits[1]), ":1")
	locktest.WantPrefix(t, c.Do("SEM.ACQUIRE", key), "$32")
	for range 3 {
		locktest.Want(t, b.Do(acquire...), "$-1")
	}
	locktest.Eventually(t, 3*time.Second, "the other permit is released", func() bool {
		return locktest.RedisOf(s).Get(t.Context(), key).Val() == "1" && a.Carrier.Holds()+b.Carrier.Holds() == 0
	})
	locktest.Want(t, c.Do("SEM.RELEASE", key), ":1")
	locktest.WantPrefix(t, b.Do(acquire...), "*2")
}

// TestR7HalfMovedPermitsAreNoRefusal: The repeated ACQUIRE has moved one permit, and cannot move
// the other one. The reply says that it is undone, and not that nothing was done.
func TestR7HalfMovedPermitsAreNoRefusal(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	key, a, b := locktest.Semaphore(t, straight, 2), locktest.Connect(t, s), locktest.Connect(t, s)
	acquire := []string{"SEM.ACQUIRE", key, "ID", "1", "COUNT", "2"}
	permits := a.Permits(2, acquire[1:]...)
	fault := p.DropBefore(locktest.Running(script.PermitReleaseScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("SEM.RELEASE", key, permits[1]), "-"+refusal.ReleaseLater)
	locktest.Want(t, b.Do(acquire...), "-"+refusal.Unanswered)
	fault.Disarm()
	locktest.Eventually(t, locktest.Soon, "both are released", func() bool {
		return locktest.Get(t, straight, key) == "2" && a.Carrier.Holds()+b.Carrier.Holds() == 0
	})
}

// TestR30MovedPermitIsReleasedThroughItsFormerLeash: A permit has moved to another Leash. The first
// one has not heard of that, and gives the permit back all the same.
func TestR30MovedPermitIsReleasedThroughItsFormerLeash(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		deaf, other := locktest.NewLeash(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		key, a, b := locktest.Semaphore(t, other, 1), locktest.Connect(t, deaf), locktest.Connect(t, other)
		p := a.Permit(key, "ID", "x")
		locktest.Want(t, b.Permit(key, "ID", "x"), p)
		locktest.Want(t, locktest.Connect(t, deaf).Do("SEM.RELEASE", key, p), ":1")
		locktest.Want(t, locktest.Get(t, other, key), "1")
		locktest.Eventually(t, locktest.Soon, "its connection knows", func() bool { return b.Carrier.Holds() == 0 })
		if len(a.Losses)+len(b.Losses) != 0 {
			t.Error("reported as a loss")
		}
	})
}
