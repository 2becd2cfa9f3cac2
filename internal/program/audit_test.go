package program

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leash/internal/config"
	"leash/internal/redistest"
	"leash/lockcmd/view"
)

// TestAuditLog follows a lock from its grant to the loss, also after the file was renamed.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	s := newService(t, "--upstream", redis.Addr, "--audit-log", path, "--drain-timeout", "0")
	s.start()
	has := func(path string, parts ...string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				found := true
				for _, part := range parts {
					found = found && strings.Contains(line, part)
				}
				if found {
					return true
				}
			}
			return false
		}
	}
	a, b := s.dial(), s.dial()
	token := strings.TrimSpace(strings.TrimPrefix(do(t, a, "LOCK.ACQUIRE", "k", "OWNER", "billing:7"), ":"))
	eventually(t, "the grant is written", has(path, `"event":"granted"`, `"key":"k"`, `"owner":"billing:7"`, `"token":`+token+","))
	do(t, a, "LOCK.RELEASE", "k")
	eventually(t, "the release is written", has(path, `"event":"released"`, `"token":`+token+","))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is opened again", func() bool { return strings.Contains(s.log.String(), "audit log opened again") })
	do(t, a, "LOCK.ACQUIRE", "lost")
	if got := do(t, b, "LOCK.BREAK", "lost"); got != ":1\r\n" && got != ":2\r\n" {
		t.Fatal(got)
	}
	eventually(t, "the loss is written", has(path, `"event":"lost"`, `"reason":"broken"`, `"key":"lost"`, `"client":"127.0.0.1:`))
	a = s.dial() // the loss has closed the one before
	do(t, b, "ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*")
	do(t, b, "AUTH", "ann", "pw")
	do(t, a, "LOCK.ACQUIRE", "last")
	do(t, b, "CLIENT", "SETNAME", "ann-1")
	if err := b.Send("LOCK.ACQUIRE last OWNER me ONCLOSE EXPIRE BLOCK 0\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has waited for 1 ms", func() bool {
		waiters := do(t, a, "LEASH", "WAITERS")
		return strings.Contains(waiters, "ann-1") && !strings.Contains(waiters, "waited-ms\r\n:0\r\n")
	})
	do(t, a, "LOCK.RELEASE", "last")
	if got, err := b.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v", got, err)
	}
	eventually(t, "the grant is written", has(path, `"event":"granted"`, `"owner":"me"`, `"user":"ann"`, ` ann-1","waited_seconds":`))
	if has(path, `"owner":"me"`, `"waited_seconds":0,`)() || !has(path, `"event":"lost"`, `"user":"default"`, `"waited_seconds":0,`)() {
		t.Error("the wrong lines have waited")
	}
	s.stop()
	if !has(path, `"event":"expiring"`, `"key":"last"`)() {
		text, _ := os.ReadFile(path)
		t.Errorf("the end of the last lock is missing:\n%s", text)
	}
}

// TestAuditLogThatHangs checks that a pipe without a reader does not keep Leash from ending.
func TestAuditLogThatHangs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var log logFile
	logger := slog.New(slog.NewTextHandler(&log, nil))
	records, stop, err := startAudit(config.Config{AuditLog: path}, &hangupReader{log: logger}, logger)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 { // more than a pipe takes
		records.Observe(view.Change{Key: strings.Repeat("k", 100)})
	}
	stop()
	if want := "the audit log takes no bytes"; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %q: %s", want, log.String())
	}
	// the goroutine that writes can end now: it writes the rest and closes its end of the pipe
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	if _, err := io.Copy(io.Discard, reader); err != nil {
		t.Error(err)
	}
	reader.Close()
}
