package acquire

import (
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestR26UndoStopsALateAcquire(t *testing.T) {
	t.Parallel()
	l, lock := leashOf(t), newLock()
	opts := Options{Lock: lock, Mode: script.Plain, TTL: time.Minute}
	late := l.connect().newLockRequest(opts, nil)
	onItsWay := *late
	// The second undo is due long before the requested TTL ends.
	late.options.TTL = 6 * time.Second
	<-late.undo() // Redis has not seen the acquire
	if r := onItsWay.send(l.Redis.Deadline()); r.Kind != Granted {
		t.Fatalf("got %+v", r)
	}
	opts.Wait, opts.Block = true, 30*time.Second
	if r := l.connect().Acquire(t.Context(), opts); !r.Took() {
		t.Errorf("the second undo did not come: %+v", r)
	}
}

// TestR28LateUndoLeavesAHoldToExpire: An acquire was sent twice and its connection breaks, so its
// hold is left to expire. The late undo does not end that hold. It ends what a late copy of the
// acquire grants.
func TestR28LateUndoLeavesAHoldToExpire(t *testing.T) {
	for _, m := range script.Modes {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			l, lock := leashOf(t), newLock()
			a := l.connect()
			late := a.newLockRequest(Options{Lock: lock, Mode: m, TTL: time.Minute}, nil)
			onItsWay := *late
			// the undo is due long before the hold expires
			late.options.TTL, late.copyPending = time.Second, true
			if err := late.accept(t.Context(), onItsWay.send(l.Redis.Deadline())); err != nil {
				t.Fatal(err)
			}
			a.End(hold.Expire)
			<-time.After(1500 * time.Millisecond)
			if left := l.rdb.PTTL(t.Context(), lock.Key).Val(); left < 30*time.Second {
				t.Fatalf("it has %v left", left)
			}
			l.rdb.Del(t.Context(), lock.Key, script.RecordsKey(lock.Key)) // as if it had expired
			if r := onItsWay.send(l.Redis.Deadline()); r.Kind != Granted {
				t.Fatalf("the copy: got %+v", r)
			}
			late.takeBackLate(late, a.Requests.Add(1))
			if l.rdb.Exists(t.Context(), lock.Key).Val() != 0 {
				t.Error("the copy's grant stays")
			}
		})
	}
}

// semaphore makes a semaphore of five permits.
func (l *leash) semaphore(t *testing.T) (lock script.Lock, available func() string) {
	lock = newLock()
	l.rdb.Set(t.Context(), lock.Key, 5, 0)
	return lock, func() string { return l.rdb.Get(t.Context(), lock.Key).Val() }
}

func TestR28LateUndoLeavesPermitsToExpire(t *testing.T) {
	t.Parallel()
	l := leashOf(t)
	lock, available := l.semaphore(t)
	a := l.connect()
	late := a.newPermitRequest(Options{Lock: lock, Mode: script.Permit, TTL: time.Minute}, 2)
	late.options.TTL, late.copyPending = time.Second, true
	if r := late.conclude(t.Context(), late.Attempt(l.Redis.Deadline(), wait.Position{})); r.Err != nil {
		t.Fatal(r.Err)
	}
	a.End(hold.Expire)
	<-time.After(1500 * time.Millisecond)
	if left := available(); left != "3" {
		t.Errorf("%s are available", left)
	}
}

// TestR26UndoStopsALateAcquireOfPermits: A copy that arrives after the undo gets permits. They are
// released a TTL later. Another permit of the connection stays.
func TestR26UndoStopsALateAcquireOfPermits(t *testing.T) {
	t.Parallel()
	l := leashOf(t)
	lock, available := l.semaphore(t)
	a, opts := l.connect(), Options{Lock: lock, Mode: script.Permit, TTL: time.Minute}
	if _, r := a.AcquirePermits(t.Context(), opts, 1); !r.Took() {
		t.Fatalf("got %+v", r)
	}
	opts.TTL = 6 * time.Second
	late := a.newPermitRequest(opts, 2)
	<-late.undoGrant() // Redis has not seen the request
	late.Attempt(l.Redis.Deadline(), wait.Position{})
	if left := available(); left != "2" {
		t.Fatalf("the copy leaves %s, want 2", left)
	}
	eventually(t, "the copy is undone too", func() bool { return available() == "4" })
	if a.Holds() != 1 {
		t.Error("what was held was touched")
	}
}
