package program

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestSecretsStaySecret starts the real binary with a secret in every flag that takes one, by value
// or by file, and provokes errors. No secret may be in its arguments, its log, its output, and what
// it tells clients and operators.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	s, dir := redistest.Start(t), t.TempDir()
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "ACL", "SETUSER", "leash", "on", ">hush-own", "~*", "&*", "+@all")
	direct.Want("+OK\r\n", "ACL", "SETUSER", "app", "on", ">hush-app", "~app:*", "+@all", "-flushall")
	binary := leashtest.Binary(t)
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	admin := redistest.FreeAddr(t)
	common := []string{
		"--admin", admin, "--admin-token-file", file("token", "hush-token"),
		"--admin-write-token-file", file("write", "hush-write"), "--log-level", "debug", "--require-auth",
	}
	for name, args := range map[string][]string{
		"flag":    {"--upstream", s.Addr, "--upstream-user", "leash", "--upstream-password", "hush-own"},
		"url":     {"--upstream=redis://leash:hush-own@" + s.Addr},
		"file":    {"--upstream", s.Addr, "--upstream-user", "leash", "--upstream-password-file", file("own", "hush-own")},
		"command": {"--upstream", s.Addr, "--upstream-user", "leash", "--upstream-password-command", "cat " + file("own", "hush-own")},
	} {
		l, err := leashtest.Start(t.Context(), binary, dir, append(args, common...)...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen := provoke(t, l.Addr) + get(t, admin, "/metrics", "hush-token") + get(t, admin, "/api/clients", "hush-token") +
			get(t, admin, "/metrics", "hush-wrong") + arguments(t, admin)
		direct.Want("+OK\r\n", "ACL", "SETUSER", "leash", "<hush-own")
		direct.Do("CLIENT", "KILL", "USER", "leash")
		eventually(t, "Leash cannot log in", func() bool {
			line, err := l.Said("redis refuses the password of Leash's own user")
			return err == nil && line != ""
		})
		direct.Want("+OK\r\n", "ACL", "SETUSER", "leash", ">hush-own")
		if err := l.Stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		log, err := os.ReadFile(l.Log)
		if err != nil {
			t.Fatal(err)
		}
		tellsNoSecret(t, name, seen+string(log))
	}
}

// provoke makes clients meet errors about passwords, and returns what Leash told them.
func provoke(t *testing.T, addr string) (seen string) {
	t.Helper()
	c := redistest.Connect(t, addr)
	for _, args := range [][]string{
		{"AUTH", "app", "hush-wrong"}, {"AUTH", "hush-wrong"}, {"AUTH", "app", "hush-app", "more"}, {"HELLO", "3", "AUTH", "app", "hush-wrong"},
		{"GET", "k"}, {"AUTH", "app", "hush-app"}, {"GET", "k"}, {"FLUSHALL"}, {"LOCK.ACQUIRE", "app:k"}, {"CLIENT", "LIST"},
		{"MULTI"}, {"AUTH", "app", "hush-wrong"}, {"EXEC"}, {"CLIENT", "INFO"}, {"INFO", "everything"}, {"SLOWLOG", "GET"},
	} {
		seen += c.Do(args...)
	}
	return seen
}

func get(t *testing.T, addr, path, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// arguments returns the command lines of all processes that name an address, as ps shows them.
func arguments(t *testing.T, addr string) (all string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), addr) {
			all += string(line)
		}
	}
	if all == "" {
		t.Errorf("no process has %s in its arguments", addr)
	}
	return all
}

func tellsNoSecret(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.Index(text, "hush-"); i >= 0 {
		t.Errorf("%s: a secret shows: %.200q", what, text[max(0, i-80):])
	}
}

// TestWrongSettingsTellNoSecret checks the errors of a start that fails.
func TestWrongSettingsTellNoSecret(t *testing.T) {
	t.Parallel()
	binary := leashtest.Binary(t)
	for _, args := range [][]string{
		{"--upstream-password", "hush-own"},
		{"--upstream-password", "hush-own", "--upstream-password", "hush-other", "--upstream", "127.0.0.1:1"},
		{"-upstream-password=hush-own"},
		{"--upstream-passwort=hush-own"},
		{"--upstream-password", "hush-own", "hush-more"},
		{"--upstream", "redis://leash:hush-own@127.0.0.1:1/7"},
		{"--upstream", "redis://leash:hush-own@[::1"},
		{"--upstream", "leash:hush-own@127.0.0.1:1"},
		{"--sentinel-password", "hush-own", "--upstream", "127.0.0.1:1"},
		{"--upstream", "127.0.0.1:1", "--wait-for-upstream", "0", "--upstream-user", "leash", "--upstream-password", "hush-own"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, append(args, "--listen", "127.0.0.1:0")...).CombinedOutput()
		if err == nil || len(out) == 0 {
			t.Errorf("%q: %v, %s", args, err, out)
		}
		tellsNoSecret(t, "start", string(out))
	}
}
