package config

import (
	"strings"
	"testing"
)

func TestValidateAdmin(t *testing.T) {
	for want, args := range map[string][]string{
		`--admin "here" is not an address: give host:port, [ipv6]:port or :port`:             {"--admin", "here"},
		`--admin "127.0.0.1:6380" is an address for clients as well: give each its own port`: {"--admin", "127.0.0.1:6380"},
		`--admin ":6380" is an address for clients as well: give each its own port`:          {"--admin", ":6380"},
		"--admin-tls-cert and --admin-tls-key belong together: give both":                    {"--admin", ":1", "--admin-tls-cert", "a"},
		"--admin-tls-cert, --admin-tls-key, --admin-token-file and --admin-write-token-file are for --admin: " +
			"give it, or remove them": {"--admin-tls-cert", "a", "--admin-tls-key", "b"},
	} {
		if got := mustRefuse(t, nil, args...); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}

func TestAdminAddr(t *testing.T) {
	for given, want := range map[string]string{
		":9121": "127.0.0.1:9121", "localhost:0": "localhost:0", "0.0.0.0:9121": "0.0.0.0:9121", "[::1]:1": "[::1]:1",
	} {
		if got := mustParse(t, nil, "--admin", given).AdminAddr(); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

func TestAdminTokenFile(t *testing.T) {
	c := mustParse(t, nil, "--admin", ":1", "--admin-token-file", writeFile(t, "open-sesame\n"))
	if c.AdminToken != "open-sesame" {
		t.Errorf("got %q", string(c.AdminToken))
	}
	for content, want := range map[string]string{"\n": "is empty", "open sesame": "white space"} {
		got := mustRefuse(t, nil, "--admin", ":1", "--admin-token-file", writeFile(t, content))
		if !strings.Contains(got, "--admin-token-file") || !strings.Contains(got, want) || strings.Contains(got, "sesame") {
			t.Errorf("%q: got %s", content, got)
		}
	}
	mustRefuse(t, nil, "--admin-token-file", writeFile(t, "x"))
}

func TestAdminWriteTokenFile(t *testing.T) {
	read, write := writeFile(t, "read"), writeFile(t, "write\n")
	c := mustParse(t, nil, "--admin", ":1", "--admin-token-file", read, "--admin-write-token-file", write)
	if c.AdminToken != "read" || c.AdminWriteToken != "write" {
		t.Errorf("got %q and %q", string(c.AdminToken), string(c.AdminWriteToken))
	}
	for want, args := range map[string][]string{
		"--admin-write-token-file needs --admin-token-file: give it as well": {
			"--admin", ":1", "--admin-write-token-file", write},
		"--admin-write-token-file has the token of --admin-token-file: give another one": {
			"--admin", ":1", "--admin-write-token-file", read, "--admin-token-file", read},
		"--admin-write-token-file has white space within the token: give a token without any": {
			"--admin", ":1", "--admin-token-file", read, "--admin-write-token-file", writeFile(t, "a b")},
	} {
		if got := mustRefuse(t, nil, args...); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
	mustRefuse(t, nil, "--admin-write-token-file", write)
}
