package program

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leash/internal/certtest"
	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// settingsFile writes a file for --config that only its owner can read.
func settingsFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "leash.toml")
	writeSettings(t, path, text)
	return path
}

// writeSettings replaces the file for --config in one step, as an operator should.
func writeSettings(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestCheckConfig(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, other := ca.Issue(t, nil, "leash"), ca.Issue(t, nil, "other")
	dir := t.TempDir()
	tls := func(cert, key string) string {
		return "tls-listen = '127.0.0.1:0'\ntls-cert = '" + cert + "'\ntls-key = '" + key + "'\n"
	}
	for _, row := range []struct {
		file, want string
		code       int
	}{
		{"upstream = '127.0.0.1:1'", "", 0}, // nothing is connected
		{tls(pair.Cert, pair.Key), "", 0},
		{"audit-log = '" + dir + "/audit'", "", 0},
		{"max-clients = 0", ":1: --max-clients 0 is too small", 2},
		{tls(pair.Cert, other.Key), "--tls-cert " + pair.Cert + ": tls: private key", 1},
		{tls(pair.Cert, dir+"/none"), "--tls-key: open " + dir + "/none: no such file", 1},
		{"audit-log = '" + dir + "/none/audit'", "--audit-log: open " + dir + "/none: no such file", 1},
		{"audit-log = '" + dir + "'", "--audit-log: open " + dir + ": is a directory", 1},
		{"upstream = 'a:1'\nupstream-password-file = '/none'", ":2: --upstream-password-file: open /none", 2},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"--check-config", "--config", settingsFile(t, row.file)}, nil, &out, &out)
		if row.code != exitCode(err) || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s\nexit code %d: %v", row.file, exitCode(err), err)
		}
		if ok := out.String() == "configuration ok\n"; ok != (err == nil) {
			t.Errorf("%s\nit said %q", row.file, out.String())
		}
	}
	public := settingsFile(t, "upstream = 'a:1'\nupstream-password = 'open-sesame'")
	if err := os.Chmod(public, 0o644); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	err := run(t.Context(), []string{"--check-config", "--config", public}, nil, &out, &log)
	if err != nil || !strings.Contains(log.String(), "every user of this machine can read") {
		t.Errorf("a public password: %v, it logged %q", err, log.String())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the check has made files: %v %v", entries, err)
	}
}

// startWithFile runs a Leash as a process, with a file for --config, and returns the file's path.
func startWithFile(t *testing.T, text string, args ...string) (*leashtest.Leash, string) {
	t.Helper()
	s, dir, path := redistest.Start(t), t.TempDir(), settingsFile(t, text)
	binary := leashtest.Binary(t)
	l, err := leashtest.Start(t.Context(), binary, dir, append([]string{"--upstream", s.Addr, "--config", path}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return l, path
}

// hangUp sends SIGHUP and waits for a line of the log that has all the words.
func hangUp(t *testing.T, l *leashtest.Leash, words ...string) {
	t.Helper()
	if err := l.Hangup(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says "+strings.Join(words, " … "), func() bool { return hasLine(t, l, words...) })
}

// hasLine reports whether a line of the log has all the words.
func hasLine(t *testing.T, l *leashtest.Leash, words ...string) bool {
	t.Helper()
	log, err := os.ReadFile(l.Log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// TestHangupReadsSettings: what may change while Leash runs changes, and the log says what needs a
// restart. A wrong file changes nothing. Flags beat the file each time.
func TestHangupReadsSettings(t *testing.T) {
	t.Parallel()
	l, path := startWithFile(t, "max-clients = 100\nmax-waiters = 5\n", "--max-waiters", "7")
	holder := redistest.Connect(t, l.Addr)
	if got := holder.Do("LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	hangup := func(said ...string) {
		t.Helper()
		hangUp(t, l, said...)
	}
	maxClients := func(want string) {
		t.Helper()
		if err := l.AwaitInfo(ample, "max_clients:"+want); err != nil {
			t.Error(err)
		}
	}
	writeSettings(t, path, "max-clients = 200\nmax-waiters = 6\nwatchdog-timeout = '20s'\nlog-level = 'debug'\n")
	hangup("settings read again", "differences=3")
	maxClients("200")
	for _, line := range []string{
		`level=INFO msg="setting changed" setting=max-clients old=100 new=200`,
		`level=INFO msg="setting changed" setting=log-level old=info new=debug`,
		`level=WARN msg="a changed setting needs a restart" setting=watchdog-timeout running=30s new=20s`,
	} {
		if !hasLine(t, l, line) {
			t.Errorf("the log lacks %s", line)
		}
	}

	writeSettings(t, path, "max-clients = 300\nmax-waiter = 6\nthreads = 0\n")
	hangup("level=ERROR", "new settings are refused", path+":2: max-waiter is not a setting")
	writeSettings(t, path, "max-clients = 300\nthreads = 0\nmax-args = 1\n")
	hangup("level=ERROR", "new settings are refused", path+":3: --max-args 1 is too small", "; ", path+":2: --threads 0 is too small")
	writeSettings(t, path, "max-clients = 300\naudit-log = '"+path+"/none'\n")
	hangup("level=ERROR", "new settings are refused", "--audit-log: open "+path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	hangup("level=ERROR", "new settings are refused", "--config: open "+path+": no such file")
	maxClients("200")

	writeSettings(t, path, "")
	hangup("setting changed", "setting=max-clients old=200 new=10000")
	maxClients("10000")
	holder.Want(":1\r\n", "LOCK.RELEASE", "k")
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

// TestConfigCommand changes settings by LEASH CONFIG SET: all or none, and logged with the user.
// SIGHUP goes back to the file.
func TestConfigCommand(t *testing.T) {
	t.Parallel()
	l, path := startWithFile(t, "max-clients = 100\n", "--admin", "127.0.0.1:0")
	c := redistest.Connect(t, l.Addr)
	c.Want("+OK\r\n", "CLIENT", "SETNAME", "ops")
	c.Want("*2\r\n$11\r\nmax-clients\r\n$3\r\n100\r\n", "LEASH", "CONFIG", "GET", "Max-Cl[aeiou]*ents", "max-clients")
	c.Want("*0\r\n", "LEASH", "CONFIG", "GET", "nosuch")
	c.Want("+OK\r\n", "LEASH", "CONFIG", "SET", "max-clients", "50", "log-level", "error", "drain-delay", "0")
	c.Want("-ERR CONFIG SET failed (possibly related to argument 'threads') - can't set immutable config\r\n",
		"LEASH", "CONFIG", "SET", "max-clients", "60", "threads", "9")
	if err := l.AwaitInfo(ample, "max_clients:50"); err != nil {
		t.Error(err)
	}
	c.Want("$5\r\nerror\r\n", "LEASH", "LOGLEVEL")
	c.Want("+OK\r\n", "LEASH", "LOGLEVEL", "Warn")
	c.Want("*2\r\n$9\r\nlog-level\r\n$4\r\nwarn\r\n", "LEASH", "CONFIG", "GET", "log-level")
	for _, words := range [][]string{
		{`msg="setting changed"`, " ops", "user=default", "setting=max-clients old=100 new=50"},
		{`msg="setting changed"`, " ops", "setting=log-level old=info new=error"},
		{`msg="setting changed"`, " ops", "setting=log-level old=error new=warn"},
	} {
		if !hasLine(t, l, words...) {
			t.Errorf("the log lacks %v", words)
		}
	}
	writeSettings(t, path, "max-clients = 100\nmax-waiters = 5\n")
	hangUp(t, l, "setting changed", "setting=max-waiters")
	eventually(t, "the file counts again", func() bool {
		return c.Do("LEASH", "CONFIG", "GET", "max-clients") == "*2\r\n$11\r\nmax-clients\r\n$3\r\n100\r\n"
	})
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

// TestHangupChangesTheStop: --drain-delay and --drain-timeout are those of the last SIGHUP.
func TestHangupChangesTheStop(t *testing.T) {
	t.Parallel()
	l, path := startWithFile(t, "drain-timeout = '1h'\ndrain-delay = '10m'\n")
	holder := redistest.Connect(t, l.Addr)
	if got := holder.Do("LOCK.ACQUIRE", "k"); got[0] != ':' {
		t.Fatal(got)
	}
	writeSettings(t, path, "drain-timeout = '50ms'\n")
	hangUp(t, l, "settings read again")
	if err := l.Stop(); err != nil { // it kills a Leash that does not end
		t.Error(err)
	}
	if !hasLine(t, l, "leash stops", "drain-timeout=50ms") {
		t.Errorf("the log lacks the new drain-timeout: %s", l.LogTail())
	}
}
