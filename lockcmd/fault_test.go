package lockcmd_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR7LostReplyOfAcquire(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	rdb := locktest.RedisOf(straight)
	for _, before := range []bool{false, true} {
		key, other := locktest.NewKey(), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(other) // Redis knows the script
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(locktest.Running(script.AcquireScript, key))
		token := a.Token(key, "OWNER", "me")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		locktest.Want(t, locktest.Count(rdb, key, "me"), "1")
		fault = arm(locktest.Running(script.AcquireScript, key))
		if again := a.Token(key, "OWNER", "me"); again != token || fault.Count() != 1 {
			t.Fatalf("got token %d, want %d", again, token)
		}
		locktest.Want(t, locktest.Count(rdb, key, "me"), "2")
		fault = arm(locktest.Running(script.ReleaseScript, key))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, locktest.Count(rdb, key, "me"), "1")
		again := arm(locktest.Running(script.ReleaseScript, key))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) || fault.Count()+again.Count() != 2 || len(a.Losses) != 0 {
			t.Error("the hold has not ended in order")
		}
	}
}

func TestR21LostReplyOfHandOver(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		// A release that meets its waiter's own attempt hands nothing over. Then the test tries
		// again.
		for try := 1; !lostHandOver(t, before); try++ {
			if try == 50 {
				t.Fatal("no release hands over")
			}
		}
	}
}

// lostHandOver releases to a waiter and loses the hand-over's reply, or its request. It reports
// whether there was a hand-over.
func lostHandOver(t *testing.T, before bool) bool {
	t.Helper()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	key := locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, s)
	old := a.Token(key)
	reply := b.Await(s, 1, key, "BLOCK", "0")
	arm := p.DropAfter
	if before {
		arm = p.DropBefore
	}
	fault := arm(locktest.Running(script.HandoverScript, key))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if token := locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second)); token <= old || fault.Count() > 1 {
		t.Errorf("got token %d after %d, %d faults", token, old, fault.Count())
	}
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	if locktest.Exists(t, locktest.RedisOf(straight), key) {
		t.Error("something is left behind")
	}
	return fault.Count() == 1
}

func TestR26UnknownAcquireIsUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout},
		locktest.SlowRetries)
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
	a.Token(locktest.NewKey())
	fault := p.DropAfter(locktest.Running(script.AcquireScript, key), faultproxy.Always())
	began := time.Now()
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "TTL", "60000"), "-"+refusal.Unanswered)
	if took := time.Since(began); took > locktest.Soon {
		t.Errorf("the client was told after %v", took)
	}
	if fault.Count() < 2 {
		t.Error("the right answer was not checked")
	}
	began = time.Now()
	b.Token(key, "BLOCK", "0")
	if took := time.Since(began); took > locktest.Soon {
		t.Errorf("the lock was free only after %v", took)
	}
	if s.Stats().Timeouts != 1 || s.Stats().Undone != 1 || s.Stats().Holds != 1 {
		t.Errorf("got stats %+v", s.Stats())
	}
}

func TestR26UndoLeavesTheHoldItEntered(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	token := a.Token(key, "OWNER", "me")
	fault := p.DropAfter(locktest.Running(script.AcquireScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	fault.Disarm()
	if again := a.Token(key, "OWNER", "me"); again != token {
		t.Fatalf("got token %d, want %d", again, token)
	}
	locktest.Want(t, locktest.Count(locktest.RedisOf(straight), key, "me"), "2")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
}

func TestR26UnknownReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	for range 2 {
		a.Token(key, "OWNER", "me")
	}
	fault := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotAccepted) // one request at a time
	fault.Disarm()
	locktest.Eventually(t, 2*time.Second, "the release is repeated", func() bool {
		return locktest.Count(locktest.RedisOf(straight), key, "me") == "1"
	})
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if locktest.Exists(t, locktest.RedisOf(straight), key) || len(a.Losses) != 0 {
		t.Error("the hold has not ended in order")
	}
}

func TestR27PausedRedisIsALossBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Start(t, locktest.DialServer(t, server.Addr), lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	other := locktest.Start(t, locktest.DialServer(t, server.Addr),
		lockcmd.Config{}) // its grants outlast a busy machine
	replies := make(map[*locktest.Client]<-chan string)
	for _, m := range script.Modes {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Hold(key, m.Option)
		replies[a] = locktest.Connect(t, other).Await(other, 1, key,
			append(locktest.ExclusiveOptions(m), "BLOCK", "0")...)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	resume := time.AfterFunc(9*time.Second, func() { server.Resume() })
	defer resume.Stop()
	for a, reply := range replies {
		locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
		if len(a.Losses) == 0 {
			t.Fatal("the waiter was answered before the holder was told")
		}
		if loss := <-a.Losses; !strings.HasSuffix(loss, " silence") {
			t.Errorf("lost %s", loss)
		}
	}
}

func TestR16DisconnectsAtRandom(t *testing.T) {
	t.Parallel()
	disconnectAtRandom(t)
}

func TestR22DisconnectsAtRandom(t *testing.T) {
	t.Parallel()
	disconnectAtRandom(t, "FAIR")
}

// disconnectAtRandom lets many clients acquire one lock in turn. Half of them disconnect at random
// moments.
func disconnectAtRandom(t *testing.T, options ...string) {
	t.Helper()
	// a busy machine completes few calls
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{WatchdogTimeout: 15 * time.Second,
		UpstreamTimeout: 5 * time.Minute})
	const clients, rounds = 24, 4
	key := locktest.NewKey()
	var wg sync.WaitGroup
	var once sync.Mutex // The holder of the lock locks it. TryLock fails when there is a second holder.
	stop := make(chan struct{})
	go func() { // connections break all the time
		for {
			select {
			case <-stop:
				return
			case <-time.After(37 * time.Millisecond):
				p.Cut(faultproxy.FIN)
			}
		}
	}()
	for i := range clients {
		where := []*lockcmd.Service{s, straight}[i%2]
		wg.Go(func() {
			for round := range rounds {
				c := locktest.Connect(t, where)
				dies := (i+round)%4 < 2
				if dies {
					time.AfterFunc(time.Duration((i*7+round*13)%60)*time.Millisecond, c.Gone)
				}
				reply := c.Do(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, options...)...)
				if strings.HasPrefix(reply, ":") {
					if !once.TryLock() {
						t.Error("two holders")
						return
					}
					<-time.After(200 * time.Microsecond)
					once.Unlock()
					if !dies {
						if r := c.Do("LOCK.RELEASE", key); r != ":1" {
							t.Errorf("release: got %q", r)
						}
					}
				} else if !dies {
					t.Errorf("acquire: got %q", reply)
				}
				c.Carrier.End(lockcmd.Release)
			}
		})
	}
	wg.Wait()
	close(stop)
	locktest.Eventually(t, 5*time.Second, "nothing is left", func() bool {
		return locktest.RedisOf(straight).Exists(context.Background(), append(script.QueueKeys(key), key)...).Val() == 0
	})
	locktest.Eventually(t, 5*time.Second, "nothing is counted", func() bool {
		return s.Stats().Holds == 0 && straight.Stats().Holds == 0 && s.Stats().Waiters == 0
	})
}

func TestR26UnknownRemoteReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for count, code := range map[int]string{1: ":1", 2: ":0"} {
			tests[fmt.Sprint(ran, count)] = func(t *testing.T) {
				s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
				a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
				for range count {
					a.Token(key, "OWNER", "me")
				}
				fault := locktest.Drop(p, ran)(locktest.Running(script.RevokeScript, key), faultproxy.Always())
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), "-"+refusal.ReleaseLater)
				fault.Disarm()
				locktest.Eventually(t, 2*time.Second, "the answer is found", func() bool {
					return b.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r") == code
				})
				locktest.Eventually(t, time.Second, "the hold is settled",
					func() bool { return a.Carrier.Holds() == count-1 })
				s.RenewAll(context.Background())
				if locktest.Exists(t, locktest.RedisOf(straight), key) != (count == 2) || len(a.Losses) != 0 {
					t.Error("the hold is not as it should be")
				}
				if count == 2 {
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR26UnknownPermitReleaseIsRepeated: A release of the permit of another Leash gets no answer
// while it asks who the carrier is. It gives the permit back as soon as Redis answers.
func TestR26UnknownPermitReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		key, a, b := locktest.Semaphore(t, straight, 1), locktest.Connect(t, straight), locktest.Connect(t, s)
		permit := a.Permit(key)
		fault := arm(locktest.Running(script.PermitRevokeScript, key), faultproxy.Always())
		locktest.Want(t, b.Do("SEM.RELEASE", key, permit), "-"+refusal.ReleaseLater)
		fault.Disarm()
		locktest.Eventually(t, locktest.Soon, "it is given back", func() bool {
			return locktest.Get(t, straight, key) == "1" && a.Carrier.Holds() == 0
		})
		if len(a.Losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	}
}

// TestR26UnknownReleaseOfPermitsGivesAllBack: A release of many permits gets no answer. It sends
// some of them only after that. All are given back, although their connection stays open.
func TestR26UnknownReleaseOfPermitsGivesAllBack(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for _, where := range []*lockcmd.Service{s, straight} {
		key, a, b := locktest.Semaphore(t, straight, 40), locktest.Connect(t, where), locktest.Connect(t, s)
		permits := a.Permits(40, key, "COUNT", "40")
		p.Freeze()
		locktest.Want(t, b.Do(append([]string{"SEM.RELEASE", key}, permits...)...), "-"+refusal.ReleaseLater)
		p.Thaw()
		locktest.Eventually(t, locktest.Soon, "all are given back", func() bool {
			return locktest.Get(t, straight, key) == "40" && a.Carrier.Holds() == 0
		})
	}
}

// TestR26MreleaseSaysWhatWasNotDone: Of two releases for another Leash, one goes on and the other
// was not begun. The client is told of that one, so that it sends the command again.
func TestR26MreleaseSaysWhatWasNotDone(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, b, keys := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.NewKeys(2)
	tokens := []string{"TOKENS"}
	for _, key := range keys {
		tokens = append(tokens, strconv.FormatInt(a.Token(key), 10))
	}
	release := locktest.Several("LOCK.MRELEASE", keys, tokens...)
	goesOn := p.DropBefore(locktest.Running(script.RevokeScript, keys[0]), faultproxy.Always())
	notBegun := p.DropBefore(func(request []byte) bool {
		args := faultproxy.Args(request)
		return len(args) > 3 && string(args[3]) == keys[1]
	}, faultproxy.Always())
	locktest.Want(t, b.Do(release...), "-"+refusal.NotAccepted)
	goesOn.Disarm()
	notBegun.Disarm()
	b.Do(release...)
	locktest.Eventually(t, locktest.Soon, "both are released", func() bool { return a.Carrier.Holds() == 0 })
}
