package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// settings writes a file of settings, and returns its path.
func settings(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leash.toml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileHasEverySetting(t *testing.T) {
	var lines []string
	for _, e := range everything {
		lines = append(lines, e.flag+" = '"+e.text+"'")
	}
	got, want := mustParse(t, nil, "--config", settings(t, lines...)), everythingParsed
	if want.File = got.File; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestFileHasTOMLValues checks values that are not texts.
func TestFileHasTOMLValues(t *testing.T) {
	c := mustParse(t, nil, "--config", settings(t,
		"# a comment",
		"listen = [",
		"  '127.0.0.1:7000', # two",
		"  'unix:/run/leash.sock' ]",
		"proxy-protocol = true",
		"max-clients = 20_000",
		"max-bulk = 0x400_0000",
		"drain-timeout = 0",
		"wait-for-upstream = 'forever'",
		"upstream = 'a:1,b:2'"))
	want := Default()
	want.File, want.Listen, want.Upstream = c.File, []string{"127.0.0.1:7000", "unix:/run/leash.sock"}, []string{"a:1", "b:2"}
	want.ProxyProtocol, want.MaxClients, want.MaxBulk, want.DrainTimeout = true, 20000, 64*mib, 0
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
}

// TestFileIsBeaten checks the order: flag, variable, file, default.
func TestFileIsBeaten(t *testing.T) {
	path := settings(t, "listen = ['127.0.0.1:1', '127.0.0.1:2']", "max-clients = 3", "max-waiters = 4", "max-args = 'nobody asks'")
	vars := map[string]string{"LEASH_CONFIG": path, "LEASH_MAX_CLIENTS": "5", "LEASH_MAX_WAITERS": "6", "LEASH_LISTEN": "127.0.0.1:3"}
	c := mustParse(t, vars, "--max-clients", "7", "--max-args", "2048")
	if c.MaxClients != 7 || c.MaxWaiters != 6 || c.MaxArgs != 2048 || !reflect.DeepEqual(c.Listen, []string{"127.0.0.1:3"}) {
		t.Errorf("got %+v", c)
	}
	other := settings(t, "drain-timeout = '3s'")
	if c = mustParse(t, vars, "--config", other); c.DrainTimeout != 3*time.Second || c.MaxClients != 5 {
		t.Errorf("got %+v", c)
	}
}

func TestFileIsRefused(t *testing.T) {
	for _, row := range []struct{ lines, want string }{
		{"\nmax-client = 3", `:2: max-client is not a setting: did you mean max-clients?`},
		{"--listen = ':1'", `:1: --listen is not a setting: did you mean listen?`},
		{"config = 'other.toml'", `:1: config is not a setting`},
		{"[redis]\nupstream = 'a:1'", `:1: redis is a table: write each setting as name = value, without tables`},
		{"max-clients = 'many'", `:1: --max-clients "many" is not a whole number`},
		{"max-clients = 1.5", `:1: --max-clients "1.5" is not a whole number`},
		{"\n\nmax-clients = 0", `:3: --max-clients 0 is too small: give 1 or more`},
		{"max-clients = [1, 2]", `:1: --max-clients is a list: give one value`},
		{"max-clients = true", `:1: --max-clients is not a text: write the value in quotes`},
		{"[max-clients]\nof = 1", `:1: --max-clients is not a text: write the value in quotes`},
		{"drain-timeout = 30", `:1: --drain-timeout "30" has no unit: write 30s for seconds, or ms, m, h`},
		{"announce = 5", `:1: --announce is not a text: write the value in quotes`},
		{"announce = ''", `:1: --announce is empty: give a value, or remove the line`},
		{"listen = []", `:1: --listen is empty: give a value, or remove the line`},
		{"listen = ['127.0.0.1:1', 2]", `:1: --listen is not a text: write the value in quotes`},
		{"proxy-protocol = 1", `:1: --proxy-protocol is neither true nor false`},
		{"proxy-protocol = 'si'", `:1: --proxy-protocol "si" is neither true nor false`},
		{"drain-delay = 2026-11-26", `:1: --drain-delay is not a text: write the value in quotes`},
		{"max-clients = 1\nmax-clients = 2", `:2: max-clients is given twice: give it once`},
		{"upstream-password = secret", `:1:21: is not TOML: write name = value on each line, and texts in quotes`},
		{"listen", `:1:6: is not TOML: write name = value on each line, and texts in quotes`},
		{"upstream = 'a:1'\ntoken-ttl = '1s'", `:2: --token-ttl 1s is shorter than --watchdog-timeout 30s: give that much or more, or 0 for no limit`},
		{"upstream = 'x://u:secret@h'", `:1: --upstream has an address that is neither host:port nor a URL: write rediss://user:password@host:port`},
		{"listen = ['u:secret@h', '']", `:1: --listen is empty: give a value, or remove the line`},
		{"log-level = 'u:secret@h'", `:1: --log-level is not one of debug, info, warn, error`},
	} {
		path := settings(t, row.lines)
		if got, want := mustRefuse(t, nil, "--config", path), path+row.want; !strings.HasPrefix(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", row.lines, got, want)
		} else if strings.Contains(got, "secret") {
			t.Errorf("a password is shown: %s", got)
		}
	}
}

// TestFileHasManyErrors: all of them are shown, in the order of the file.
func TestFileHasManyErrors(t *testing.T) {
	path := settings(t, "threads = 'x'", "nonsense = 1", "max-args = 'y'")
	got := strings.Split(mustRefuse(t, nil, "--config", path), "\n")
	if len(got) != 3 || !strings.Contains(got[0], ":1: --threads") || !strings.Contains(got[2], ":3: --max-args") {
		t.Errorf("got %q", got)
	}
	path = settings(t, "threads = 0", "max-args = 1")
	got = strings.Split(mustRefuse(t, nil, "--config", path, "--max-waiters", "0"), "\n")
	if len(got) != 3 || !strings.Contains(got[0], ":2: --max-args") || !strings.HasPrefix(got[1], "--max-waiters 0") || !strings.Contains(got[2], ":1: --threads") {
		t.Errorf("got %q", got)
	}
}

func TestFileThatIsNoFile(t *testing.T) {
	big := settings(t, strings.Repeat("#", maxConfigFile+1))
	for path, want := range map[string]string{
		"/nowhere/leash.toml": "--config: open /nowhere/leash.toml: no such file or directory",
		t.TempDir():           "--config: read ",
		big:                   "--config \"" + big + "\" is larger than 1MiB: it can't be a list of settings",
	} {
		if got := mustRefuse(t, nil, "--config", path); !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestFileIsPublic: a password in a file that everybody can read is worth a warning.
func TestFileIsPublic(t *testing.T) {
	for line, secret := range map[string]bool{
		"upstream-password = 'x'":          true,
		"upstream = 'redis://:x@h:1'":      true,
		"upstream = ['redis://:x@h:1']":    true,
		"upstream = 'h:1'":                 false,
		"upstream-password-ttl = '10m'":    false,
		"upstream-password-command = 'id'": false,
		"deny = ['@admin']":                false,
	} {
		path := settings(t, line)
		args := []string{"--config", path}
		if !strings.HasPrefix(line, "upstream =") {
			args = append(args, "--upstream", "a:1")
		}
		if mustParse(t, nil, args...).FileIsPublic {
			t.Errorf("%s: only the owner can read the file", line)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := mustParse(t, nil, args...).FileIsPublic; got != secret {
			t.Errorf("%s: got %v, want %v", line, got, secret)
		}
	}
}
