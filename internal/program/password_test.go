package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestPasswordCommand starts the real binary with a program that writes the password. Redis refuses
// the old password before its time is over. Leash then runs the program again. No session ends, no
// hold is lost, and no password shows.
func TestPasswordCommand(t *testing.T) {
	t.Parallel()
	s, dir := redistest.Start(t), t.TempDir()
	admin := redistest.Connect(t, s.Addr)
	admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "on", ">secret1", "~*", "&*", "+@all")
	file := filepath.Join(dir, "token")
	write := func(password string) {
		t.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	write("secret1")
	script := filepath.Join(dir, "token.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho secret-on-stderr >&2\nexec cat \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	binary := leashtest.Binary(t)
	l, err := leashtest.Start(t.Context(), binary, dir, "--upstream", s.Addr, "--upstream-user", "leash",
		"--upstream-password-command", script+" "+file, "--upstream-password-ttl", "1h", "--trust-clients")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	holder := redistest.Connect(t, l.Addr)
	token := strings.Trim(holder.Do("LOCK.ACQUIRE", "held"), ":\r\n")
	for _, change := range []struct{ old, now string }{{"secret1", "secret2"}, {"secret2", "secret3"}} {
		admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">"+change.now, "<"+change.old)
		admin.Do("CLIENT", "KILL", "USER", "leash")
		write(change.now)
		eventually(t, "commands run with the new password", func() bool { return holder.Do("SET", "k", "v") == "+OK\r\n" })
		eventually(t, "the hold is there", func() bool { return holder.Do("LOCK.CHECK", "held", "TOKEN", token) == ":1\r\n" })
	}
	if list := admin.Do("CLIENT", "LIST"); strings.Contains(list, "secret") {
		t.Errorf("a password shows in Redis: %s", list)
	}
	write("")
	admin.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<secret3", ">secret4")
	admin.Do("CLIENT", "KILL", "USER", "leash")
	eventually(t, "the log says that the program failed", func() bool {
		line, err := l.Said("cannot read the password of Leash's own user again")
		return err == nil && strings.Contains(line, "wrote nothing")
	})
	write("secret4")
	eventually(t, "commands run when the program works again", func() bool { return holder.Do("SET", "k", "v") == "+OK\r\n" })
	holder.Want(":1\r\n", "LOCK.RELEASE", "held")
	if info := holder.Do("INFO", "leash"); strings.Contains(info, "secret") {
		t.Errorf("a password shows: %s", info)
	}
	if log, err := os.ReadFile(l.Log); err != nil || strings.Contains(string(log), "secret") {
		t.Errorf("a password shows: %s %v", log, err)
	}
}
