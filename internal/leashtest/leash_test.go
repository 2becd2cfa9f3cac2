package leashtest

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestLeashRunsAndEnds: a Leash keeps its address through a crash, a restart and an orderly end. An
// end that is not orderly is an error.
func TestLeashRunsAndEnds(t *testing.T) {
	dir := t.TempDir()
	binary := Binary(t)
	l, err := Start(t.Context(), binary, dir) // with an embedded Redis
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	if err := l.AwaitInfo(20*time.Second, "sessions:1", "holds:0"); err != nil {
		t.Error(err)
	}
	if err := l.AwaitInfo(0, "sessions:1", "holds:7"); err == nil || !strings.Contains(err.Error(), "holds:7") {
		t.Errorf("got %v", err)
	}
	if err := l.Pause(); err != nil {
		t.Fatal(err)
	}
	c, err := redistest.Dial(l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Timeout = 100 * time.Millisecond
	if reply, err := c.Do("PING"); err == nil {
		t.Errorf("a paused Leash answers %q", reply)
	}
	if err := l.Resume(); err != nil {
		t.Fatal(err)
	}
	l.Kill()
	if l.Crashed() {
		t.Error("a killed Leash counts as crashed")
	}
	if _, err := redistest.Dial(l.Addr); err == nil {
		t.Error("a killed Leash still listens")
	}
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	dir := t.TempDir()
	binary := Binary(t)
	if l, err := Start(t.Context(), binary, dir, "--nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, %v", l, err)
	}
}
