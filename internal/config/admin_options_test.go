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
		"--admin-tls-cert, --admin-tls-key and --admin-token-file are for --admin: give it, or remove them": {
			"--admin-tls-cert", "a", "--admin-tls-key", "b"},
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
