package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// faulty returns a Leash whose connections to Redis go through a fault proxy, and another one
// without it.
func faulty(t *testing.T, cfg Config, prepare ...func(*Service)) (s, straight *Service, p *faultproxy.Proxy) {
	t.Helper()
	server := sharedServer(t)
	p, err := faultproxy.New(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s = leash(t, dialServer(t, p.Addr()), cfg, prepare...)
	return s, leash(t, dialServer(t, server.Addr), cfg, prepare...), p
}

// shortTimeout is an UpstreamTimeout that a test lets pass. A busy machine does all else within it.
const shortTimeout = 3 * time.Second

// drop returns a fault that loses a command, after or before Redis runs it.
func drop(p *faultproxy.Proxy, ran bool) func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault {
	if ran {
		return p.DropAfter
	}
	return p.DropBefore
}

// running matches a script of Leash on a key, in whatever form it is sent.
func running(sc *transport.Script, key string) faultproxy.Match {
	return func(request []byte) bool {
		args := faultproxy.Args(request)
		return len(args) > 3 && (string(args[1]) == sc.SHA || string(args[1]) == sc.Source) && string(args[3]) == key
	}
}

func TestR7LostReplyOfAcquire(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	rdb := straight.Redis.Redis
	for _, before := range []bool{false, true} {
		key, other := newKey(), newKey()
		a := connect(t, s)
		a.token(other) // Redis knows the script
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(running(script.AcquireScript, key))
		token := a.token(key, "OWNER", "me")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		want(t, count(rdb, key, "me"), "1")
		fault = arm(running(script.AcquireScript, key))
		if again := a.token(key, "OWNER", "me"); again != token || fault.Count() != 1 {
			t.Fatalf("got token %d, want %d", again, token)
		}
		want(t, count(rdb, key, "me"), "2")
		fault = arm(running(script.ReleaseScript, key))
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, count(rdb, key, "me"), "1")
		again := arm(running(script.ReleaseScript, key))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) || fault.Count()+again.Count() != 2 || len(a.losses) != 0 {
			t.Error("the hold has not ended in order")
		}
	}
}

func TestR7ScriptsAreNeverSentTwiceByTheClientLibrary(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	p, err := faultproxy.New(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	rdb, ctx := dialServer(t, p.Addr()), context.Background()
	counter := newKey()
	incr := &transport.Script{Source: "return redis.call('INCR', KEYS[1])",
		SHA: "e6ffc5fb7a1c50a5b9ad9ad66e1b2fd1e2b1b0a3"}
	fault := p.DropAfter(faultproxy.Named("EVAL"), faultproxy.Always())
	if _, err := incr.Run(ctx, rdb, []string{counter}, nil); err == nil {
		t.Error("want an error")
	}
	fault.Disarm()
	if n := rdb.Get(ctx, counter).Val(); n != "1" {
		t.Errorf("the script ran %s times, want once", n)
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
	s, straight, p := faulty(t, Config{})
	key := newKey()
	a, b := connect(t, s), connect(t, s)
	old := a.token(key)
	reply := b.await(s, 1, key, "BLOCK", "0")
	arm := p.DropAfter
	if before {
		arm = p.DropBefore
	}
	fault := arm(running(script.HandoverScript, key))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if token := tokenOf(t, receive(t, reply, 3*time.Second)); token <= old || fault.Count() > 1 {
		t.Errorf("got token %d after %d, %d faults", token, old, fault.Count())
	}
	want(t, b.do("LOCK.RELEASE", key), ":1")
	if exists(t, straight.Redis.Redis, key) {
		t.Error("something is left behind")
	}
	return fault.Count() == 1
}

func TestR26UnknownAcquireIsUndone(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout}, slowRetries)
	a, b, key := connect(t, s), connect(t, straight), newKey()
	a.token(newKey())
	fault := p.DropAfter(running(script.AcquireScript, key), faultproxy.Always())
	began := time.Now()
	want(t, a.do("LOCK.ACQUIRE", key, "TTL", "60000"), "-"+refusal.Unanswered)
	if took := time.Since(began); took > soon {
		t.Errorf("the client was told after %v", took)
	}
	if fault.Count() < 2 {
		t.Error("the right answer was not checked")
	}
	began = time.Now()
	b.token(key, "BLOCK", "0")
	if took := time.Since(began); took > soon {
		t.Errorf("the lock was free only after %v", took)
	}
	if s.Stats().Timeouts != 1 || s.Stats().Undone != 1 || s.Stats().Holds != 1 {
		t.Errorf("got stats %+v", s.Stats())
	}
}

func TestR26UndoLeavesTheHoldItEntered(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	token := a.token(key, "OWNER", "me")
	fault := p.DropAfter(running(script.AcquireScript, key), faultproxy.Always())
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	fault.Disarm()
	if again := a.token(key, "OWNER", "me"); again != token {
		t.Fatalf("got token %d, want %d", again, token)
	}
	want(t, count(straight.Redis.Redis, key, "me"), "2")
	want(t, a.do("LOCK.RELEASE", key), ":0")
	want(t, a.do("LOCK.RELEASE", key), ":1")
}

func TestR26UnknownReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	for range 2 {
		a.token(key, "OWNER", "me")
	}
	fault := p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.Refused) // one request at a time
	fault.Disarm()
	eventually(t, 2*time.Second, "the release is repeated", func() bool {
		return count(straight.Redis.Redis, key, "me") == "1"
	})
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if exists(t, straight.Redis.Redis, key) || len(a.losses) != 0 {
		t.Error("the hold has not ended in order")
	}
}

func TestR27PausedRedisIsALossBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := leash(t, dialServer(t, server.Addr), Config{WatchdogTimeout: 6 * time.Second})
	other := leash(t, dialServer(t, server.Addr), Config{}) // its grants outlast a busy machine
	replies := make(map[*conn]<-chan string)
	for _, m := range script.Modes {
		a, key := connect(t, s), newKey()
		a.hold(key, m.Option)
		replies[a] = connect(t, other).await(other, 1, key, append(exclusiveOptions(m), "BLOCK", "0")...)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	resume := time.AfterFunc(9*time.Second, func() { server.Resume() })
	defer resume.Stop()
	for a, reply := range replies {
		tokenOf(t, receive(t, reply, 5*time.Second))
		if len(a.losses) == 0 {
			t.Fatal("the waiter was answered before the holder was told")
		}
		if loss := <-a.losses; !strings.HasSuffix(loss, " silence") {
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
	s, straight, p := faulty(t, Config{WatchdogTimeout: 15 * time.Second, UpstreamTimeout: 5 * time.Minute})
	const clients, rounds = 24, 4
	key := newKey()
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
		where := []*Service{s, straight}[i%2]
		wg.Go(func() {
			for round := range rounds {
				c := connect(t, where)
				dies := (i+round)%4 < 2
				if dies {
					time.AfterFunc(time.Duration((i*7+round*13)%60)*time.Millisecond, c.gone)
				}
				reply := c.do(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, options...)...)
				if strings.HasPrefix(reply, ":") {
					if !once.TryLock() {
						t.Error("two holders")
						return
					}
					<-time.After(200 * time.Microsecond)
					once.Unlock()
					if !dies {
						if r := c.do("LOCK.RELEASE", key); r != ":1" {
							t.Errorf("release: got %q", r)
						}
					}
				} else if !dies {
					t.Errorf("acquire: got %q", reply)
				}
				c.carrier.End(Release)
			}
		})
	}
	wg.Wait()
	close(stop)
	eventually(t, 5*time.Second, "nothing is left", func() bool {
		return straight.Redis.Redis.Exists(context.Background(), append(script.QueueKeys(key), key)...).Val() == 0
	})
	eventually(t, 5*time.Second, "nothing is counted", func() bool {
		return s.Stats().Holds == 0 && straight.Stats().Holds == 0 && s.Stats().Waiters == 0
	})
}

func TestR26UnknownRemoteReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for count, code := range map[int]string{1: ":1", 2: ":0"} {
			tests[fmt.Sprint(ran, count)] = func(t *testing.T) {
				s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
				a, b, key := connect(t, s), connect(t, s), newKey()
				for range count {
					a.token(key, "OWNER", "me")
				}
				fault := drop(p, ran)(running(script.RevokeScript, key), faultproxy.Always())
				want(t, b.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), "-"+refusal.ReleaseLater)
				fault.Disarm()
				eventually(t, 2*time.Second, "the answer is found", func() bool {
					return b.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r") == code
				})
				eventually(t, time.Second, "the hold is settled", func() bool { return a.carrier.Holds() == count-1 })
				s.RenewAll(context.Background())
				if exists(t, straight.Redis.Redis, key) != (count == 2) || len(a.losses) != 0 {
					t.Error("the hold is not as it should be")
				}
				if count == 2 {
					want(t, a.do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	}
	runParallel(t, tests)
}

// TestR26UnknownPermitReleaseIsRepeated: A release of the permit of another Leash gets no answer
// while it asks who the carrier is. It gives the permit back as soon as Redis answers.
func TestR26UnknownPermitReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		key, a, b := semaphore(t, straight, 1), connect(t, straight), connect(t, s)
		permit := a.permit(key)
		fault := arm(running(script.PermitRevokeScript, key), faultproxy.Always())
		want(t, b.do("SEM.RELEASE", key, permit), "-"+refusal.ReleaseLater)
		fault.Disarm()
		eventually(t, soon, "it is given back", func() bool {
			return rdbGet(t, straight, key) == "1" && a.carrier.Holds() == 0
		})
		if len(a.losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	}
}
