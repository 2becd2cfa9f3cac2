package leashtest

import (
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestR31LocksOfAKilledLeashRunOut: R31. Nothing renews the locks of a killed Leash. A waiter on
// another Leash gets the lock when its lease is over.
func TestR31LocksOfAKilledLeashRunOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis := redistest.Start(t)
	binary := Binary(t)
	var clients [2]*redistest.Client
	var leashes [2]*Leash
	var err error
	for i := range leashes {
		if leashes[i], err = Start(t.Context(), binary, dir, "--upstream", redis.Addr, "--watchdog-timeout", "5s"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(leashes[i].Kill)
		if clients[i], err = redistest.Dial(leashes[i].Addr); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
	}
	start := time.Now()
	if got, err := clients[0].Do("LOCK.ACQUIRE", "k", "OWNER", "me"); err != nil || got[0] != ':' {
		t.Fatal(got, err)
	}
	if err := clients[1].Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	if err := leashes[1].AwaitInfo(20*time.Second, "waiters:1"); err != nil {
		t.Fatal(err)
	}
	leashes[0].Kill()
	if left := redis.Client().PTTL(t.Context(), "k").Val(); left > 0 {
		t.Logf("killed when its lease had %v left", left)
	}
	got, err := clients[1].Read()
	if err != nil || got[0] != ':' {
		t.Fatal(got, err)
	}
	if d := time.Since(start); d < 5*time.Second-100*time.Millisecond {
		t.Errorf("granted after %v, within the lease", d)
	}
	if err := leashes[1].AwaitInfo(20*time.Second, "waiters:0", "holds:1"); err != nil {
		t.Error(err)
	}
}
