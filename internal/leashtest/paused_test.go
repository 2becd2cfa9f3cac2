package leashtest

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestPausedLeashBlamesNoNode: A Leash that does not run for some seconds hears no answers. When it
// goes on, it must not say that Redis was silent.
func TestPausedLeashBlamesNoNode(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	leash, err := Start(t.Context(), Binary(t), t.TempDir(), "--upstream", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leash.Kill)
	pings := func() (n int) {
		text := redis.Client().Info(t.Context(), "commandstats").Val()
		if m := regexp.MustCompile(`cmdstat_ping:calls=(\d+)`).FindStringSubmatch(text); m != nil {
			fmt.Sscan(m[1], &n)
		}
		return n
	}
	awaitPings := func(n int) {
		for begin := time.Now(); pings() < n; time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > 20*time.Second {
				t.Fatal("Leash sends no PINGs")
			}
		}
	}
	awaitPings(pings() + 2)
	if err := leash.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4500 * time.Millisecond) // the silence that is tested: a node is suspect after 3 s
	before := pings()
	if err := leash.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitPings(before + 3) // so it has judged twice
	if line, err := leash.Said("redis node lost", "does not answer"); err != nil || line != "" {
		t.Errorf("got %q, %v", line, err)
	}
}
