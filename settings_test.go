package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/certtest"
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
		{tls(pair.Cert, dir+"/none"), "--tls-cert: open " + dir + "/none: no such file", 1},
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
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the check has made files: %v %v", entries, err)
	}
}
