package program

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestClientsLeaveFilesForRedis: as many clients come as may open files. Leash refuses some of
// them, and can still connect to Redis for the others.
func TestClientsLeaveFilesForRedis(t *testing.T) {
	t.Parallel()
	const files = 200
	s, dir := redistest.Start(t), t.TempDir()
	binary := filepath.Join(dir, "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, leashtest.Binary(t))
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := leashtest.Start(t.Context(), binary, dir, "--upstream", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	holder := redistest.Connect(t, l.Addr)
	if got := holder.Do("LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	for n := 1; redistest.Connect(t, l.Addr).Do("PING") == "+PONG\r\n"; n++ {
		if n == files {
			t.Fatal("no client was refused")
		}
	}
	holder.Want("*-1\r\n", "BLPOP", "q", "0.001") // on a connection of its own
	holder.Want(":1\r\n", "LOCK.RELEASE", "k")
	if line, err := l.Said("the limit of open files is too low for --max-clients", "max-clients=10000 served=150"); line == "" {
		t.Errorf("the log does not say it: %v", err)
	}
}
