package config

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// environment is the given variables as a list of NAME=value.
func environment(vars map[string]string) (environ []string) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		environ = append(environ, name+"="+vars[name])
	}
	return environ
}

func mustParse(t *testing.T, vars map[string]string, args ...string) Config {
	t.Helper()
	c, err := Parse(args, environment(vars))
	if err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return c
}

// mustRefuse returns the usage error's text.
func mustRefuse(t *testing.T, vars map[string]string, args ...string) string {
	t.Helper()
	c, err := Parse(args, environment(vars))
	var usage *UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("Parse(%q): got %v, want a UsageError", args, err)
	}
	if !reflect.DeepEqual(c, Config{}) {
		t.Errorf("Parse(%q): a config together with the error", args)
	}
	return err.Error()
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParseNothingIsDefault(t *testing.T) {
	if got, want := mustParse(t, nil), Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// everything is a value for each setting. everythingParsed is the result.
var everything = []struct{ flag, text string }{
	{"listen", "0.0.0.0:7000,unix:/run/leash.sock"},
	{"announce", "leash.example.com:6379"},
	{"proxy-protocol", "true"},
	{"max-clients", "12"},
	{"max-bulk", "16mb"},
	{"max-args", "2048"},
	{"max-client-output", "1GiB"},
	{"max-memory", "2GiB"},
	{"peer-timeout", "20s"},
	{"drain-delay", "5s"},
	{"maint-notifications", "true"},
	{"audit-log", "/var/log/leash.log"},
	{"slowlog-slower-than", "never"},
	{"slowlog-max-len", "7"},
	{"drain-timeout", "0"},
	{"tls-listen", "0.0.0.0:7001,[::1]:7002"},
	{"tls-cert", "leash.crt"},
	{"tls-key", "leash.key"},
	{"tls-client-ca", "clients.pem"},
	{"tls-client-auth", "request"},
	{"tls-user-from", "cn"},
	{"tls-users-file", "users.txt"},
	{"require-auth", "true"},
	{"protected-mode", "true"},
	{"deny", "@dangerous,config|set"},
	{"allow-admin", "ops"},
	{"limit-user", "clients=5,output=2mb"},
	{"limit-address-clients", "20"},
	{"limit-accepts", "30"},
	{"limit-hold", "order:*=30s"},
	{"limit-name-holds", "order:*=100"},
	{"limit-login", "5s"},
	{"limit-idle", "1h"},
	{"upstream", "a:1,[::1]:2"},
	{"upstream-mode", "sentinel"},
	{"sentinel-master", "mymaster"},
	{"sentinel-user", "watcher"},
	{"sentinel-password", "quiet"},
	{"upstream-user", "leash"},
	{"upstream-password", "secret"},
	{"upstream-password-ttl", "5m"},
	{"upstream-tls", "true"},
	{"upstream-tls-ca", "redis.pem"},
	{"upstream-tls-cert", "client.crt"},
	{"upstream-tls-key", "client.key"},
	{"upstream-tls-server-name", "redis.internal"},
	{"sentinel-tls", "true"},
	{"sentinel-tls-ca", "sentinels.pem"},
	{"sentinel-tls-cert", "watcher.crt"},
	{"sentinel-tls-key", "watcher.key"},
	{"sentinel-tls-server-name", "sentinels.internal"},
	{"read-from", "nearest"},
	{"trust-clients", "false"}, // not together with tls-user-from; has its own test
	{"max-pinned", "50"},
	{"wait-for-upstream", "5s"},
	{"redirect-timeout", "1500ms"},
	{"upstream-timeout", "1m"},
	{"watchdog-timeout", "3s"},
	{"on-disconnect", "expire"},
	{"lock-publish", "plain"},
	{"token-ttl", "0"},
	{"max-hold", "5m"},
	{"failover-grace", "auto"},
	{"max-waiters", "9"},
	{"admin", "localhost:9121"},
	{"admin-tls-cert", "admin.crt"},
	{"admin-tls-key", "admin.key"},
	{"threads", "3"},
	{"log-level", "debug"},
	{"log-format", "json"},
}

var everythingParsed = Config{
	Listen:          []string{"0.0.0.0:7000", "unix:/run/leash.sock"},
	Announce:        "leash.example.com:6379",
	ProxyProtocol:   true,
	MaxClients:      12,
	MaxBulk:         16 << 20,
	MaxArgs:         2048,
	MaxClientOutput: 1 << 30,
	MaxMemory:       2 << 30,
	PeerTimeout:     20 * time.Second, DrainDelay: 5 * time.Second, MaintNotifications: true,

	TLSListen:     []string{"0.0.0.0:7001", "[::1]:7002"},
	TLSCert:       "leash.crt",
	TLSKey:        "leash.key",
	TLSClientCA:   "clients.pem",
	TLSClientAuth: "request",
	TLSUserFrom:   "cn",
	TLSUsersFile:  "users.txt",

	RequireAuth:   true,
	ProtectedMode: true,
	Deny:          []string{"@dangerous", "config|set"},
	AllowAdmin:    []string{"ops"},

	LimitUser:           []string{"clients=5", "output=2mb"},
	LimitHold:           []string{"order:*=30s"},
	LimitNameHolds:      []string{"order:*=100"},
	LimitAddressClients: 20, LimitAccepts: 30, LimitLogin: 5 * time.Second, LimitIdle: time.Hour,

	UpstreamTLS:           true,
	SentinelTLS:           true,
	UpstreamTLSCA:         "redis.pem",
	UpstreamTLSCert:       "client.crt",
	UpstreamTLSKey:        "client.key",
	UpstreamTLSServerName: "redis.internal",
	SentinelTLSCA:         "sentinels.pem",
	SentinelTLSCert:       "watcher.crt",
	SentinelTLSKey:        "watcher.key",
	SentinelTLSServerName: "sentinels.internal",

	Upstream:         []string{"a:1", "[::1]:2"},
	UpstreamMode:     "sentinel",
	SentinelMaster:   "mymaster",
	SentinelUser:     "watcher",
	SentinelPassword: "quiet",
	UpstreamUser:     "leash",
	UpstreamPassword: "secret",

	UpstreamPasswordTTL: 5 * time.Minute,

	ReadFrom:        "nearest",
	MaxPinned:       50,
	WaitForUpstream: 5 * time.Second,
	RedirectTimeout: 1500 * time.Millisecond,
	UpstreamTimeout: time.Minute,

	WatchdogTimeout: 3 * time.Second,
	OnDisconnect:    "expire",
	LockPublish:     "plain",
	MaxHold:         5 * time.Minute,
	FailoverGrace:   Auto,
	MaxWaiters:      9,

	Admin:        "localhost:9121",
	AdminTLSCert: "admin.crt",
	AdminTLSKey:  "admin.key",

	Threads:   3,
	LogLevel:  slog.LevelDebug,
	LogFormat: "json", AuditLog: "/var/log/leash.log", SlowlogSlowerThan: Never, SlowlogMaxLen: 7,
}

func TestParseEveryFlag(t *testing.T) {
	var args []string
	for _, e := range everything {
		args = append(args, "--"+e.flag+"="+e.text)
	}
	if got := mustParse(t, nil, args...); !reflect.DeepEqual(got, everythingParsed) {
		t.Errorf("got %+v\nwant %+v", got, everythingParsed)
	}
}

func TestParseEveryVariable(t *testing.T) {
	vars := map[string]string{}
	for _, e := range everything {
		vars["LEASH_"+strings.ToUpper(strings.ReplaceAll(e.flag, "-", "_"))] = e.text
	}
	if got := mustParse(t, vars); !reflect.DeepEqual(got, everythingParsed) {
		t.Errorf("got %+v\nwant %+v", got, everythingParsed)
	}
}

// TestEverythingIsComplete checks that the table above has every flag.
func TestEverythingIsComplete(t *testing.T) {
	// upstream-password-file excludes upstream-password; the files have tests of their own
	listed := map[string]bool{"config": true, "upstream-password-command": true, "upstream-password-file": true, "sentinel-password-file": true, "admin-token-file": true,
		"admin-write-token-file": true}
	for _, e := range everything {
		listed[e.flag] = true
	}
	var c Config
	for _, g := range groups(&c) {
		for _, o := range g.options {
			if !listed[o.name] {
				t.Errorf("--%s is not in the table", o.name)
			}
			delete(listed, o.name)
		}
	}
	for name := range listed {
		t.Errorf("--%s is in the table and is not a flag", name)
	}
}

func TestParseFlagBeatsVariable(t *testing.T) {
	vars := map[string]string{
		"LEASH_LISTEN":        ":1",
		"LEASH_MAX_CLIENTS":   "nonsense, but nobody asks",
		"LEASH_DRAIN_TIMEOUT": "7s",
	}
	c := mustParse(t, vars, "--listen", ":2", "--listen", "unix:a", "--max-clients", "5", "--upstream", "a:1")
	if got, want := c.Listen, []string{":2", "unix:a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("listen: got %q, want %q", got, want)
	}
	if c.MaxClients != 5 || c.DrainTimeout != 7*time.Second {
		t.Errorf("got %+v", c)
	}
}

func TestParseTrustClientsForms(t *testing.T) {
	upstream := []string{"--upstream", "a:1", "--upstream-password", "x"}
	for _, form := range []string{"--trust-clients", "--trust-clients=true", "--trust-clients=1"} {
		if !mustParse(t, nil, append(upstream, form)...).TrustClients {
			t.Errorf("%s: not set", form)
		}
	}
	vars := map[string]string{"LEASH_TRUST_CLIENTS": "true"}
	if mustParse(t, vars, append(upstream, "--trust-clients=false")...).TrustClients {
		t.Error("a flag of false does not override the variable")
	}
}

func TestParseInfo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--help"}, helpText(false)},
		{[]string{"-h"}, helpText(false)},
		{[]string{"--listen", "nonsense", "--help"}, helpText(false)},
		{[]string{"--help-all"}, helpText(true)},
		{[]string{"--max-clients", "5", "--help-all"}, helpText(true)},
		{[]string{"--version"}, "leash " + Version() + "\n"},
	} {
		_, err := Parse(c.args, environment(nil))
		var info *Info
		if !errors.As(err, &info) {
			t.Errorf("%q: got %v, want an Info", c.args, err)
			continue
		}
		if info.Text != c.want {
			t.Errorf("%q: got %q, want %q", c.args, info.Text, c.want)
		}
	}
}

// TestVersionIsNoSetting: deployments often set such a variable.
func TestVersionIsNoSetting(t *testing.T) {
	mustParse(t, map[string]string{"LEASH_VERSION": "1.2.3"})
}

// TestParseRefusesVariablesThatAreNoSettings: otherwise a Leash with LEASH_UPSTREAMS would serve an
// embedded Redis.
func TestParseRefusesVariablesThatAreNoSettings(t *testing.T) {
	for variable, want := range map[string]string{
		"LEASH_UPSTREAMS":         "LEASH_UPSTREAMS is not a setting: did you mean LEASH_UPSTREAM?",
		"leash_upstream":          "leash_upstream is not a setting: did you mean LEASH_UPSTREAM?",
		"LEASH_UPSTREAM_PASSWRD":  "LEASH_UPSTREAM_PASSWRD is not a setting: did you mean LEASH_UPSTREAM_PASSWORD?",
		"LEASH_QQ":                "LEASH_QQ is not a setting: see --help",
		"LEASH_PORT":              "LEASH_PORT is not a setting",
		"LEASH_SERVICE_HOSTS":     "LEASH_SERVICE_HOSTS is not a setting",
		"LEASH_UPSTREAM-PASSWORD": "LEASH_UPSTREAM-PASSWORD is not a setting: did you mean LEASH_UPSTREAM_PASSWORD?",
	} {
		if got := mustRefuse(t, map[string]string{variable: "a:1"}); !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// as Kubernetes sets them for Services named leash and leash-admin
	mustParse(t, map[string]string{
		"LEASH_PORT": "tcp://10.0.0.1:6380", "LEASH_SERVICE_HOST": "10.0.0.1", "LEASH_SERVICE_PORT": "6380", "LEASH_SERVICE_PORT_REDIS": "6380",
		"LEASH_PORT_6380_TCP": "tcp://10.0.0.1:6380", "LEASH_PORT_6380_TCP_PROTO": "tcp", "LEASH_PORT_6380_TCP_PORT": "6380",
		"LEASH_PORT_6380_TCP_ADDR": "10.0.0.1", "LEASH_ADMIN_PORT": "tcp://10.0.0.2:9380", "LEASH_ADMIN_SERVICE_HOST": "10.0.0.2",
		"LEASHES": "2", "UNLEASH_URL": "http://unleash",
	})
}

func TestParseRefusesWhatIsEmpty(t *testing.T) {
	for _, g := range groups(&Config{}) {
		for _, o := range g.options {
			if got, want := mustRefuse(t, map[string]string{o.env(): ""}), o.env()+" is empty: give it a value, or do not set it"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got, want := mustRefuse(t, nil, "--"+o.name+"="), "--"+o.name+" is empty: give a value, or leave the flag out"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
}

func TestParseRefusesFlagsThatContradict(t *testing.T) {
	for want, args := range map[string][]string{
		`--upstream-mode "standalone" and "cluster" are both given: give one of them`:   {"--upstream-mode", "cluster", "--upstream-mode=standalone"},
		`--trust-clients "false" and "true" are both given: give one of them`:           {"--trust-clients", "--trust-clients=false"},
		"--upstream-password is given twice with different values: give it once":        {"--upstream-password", "a", "--upstream-password", "b"},
		`--listen ":1" is given twice: give it once`:                                    {"--listen", ":1", "--listen", ":1", "--upstream", "a:1"},
		`--upstream names "a:1" twice: name it once`:                                    {"--upstream", "a:1", "--upstream", "b:1,a:1"},
		"--upstream embedded cannot be combined with an address: give one or the other": {"--upstream", "embedded", "--upstream", "a:1"},
	} {
		if got := mustRefuse(t, nil, args...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	mustParse(t, nil, "--threads", "2", "--threads", "2")
}

// TestParseEmbeddedOnlyForThisMachine: two Leashes without an upstream would grant one lock twice.
func TestParseEmbeddedOnlyForThisMachine(t *testing.T) {
	for _, listen := range []string{":6380", "0.0.0.0:6380", "[::]:6380", "10.0.0.1:6380", "leash.internal:6380"} {
		got := mustRefuse(t, nil, "--listen", "127.0.0.1:1", "--listen", listen)
		if !strings.HasPrefix(got, "--upstream names no Redis") || !strings.Contains(got, listen) {
			t.Errorf("%s: %s", listen, got)
		}
		if c := mustParse(t, nil, "--listen", listen, "--upstream", "embedded"); !c.Embedded() {
			t.Errorf("%s: it is not embedded", listen)
		}
	}
	for _, listen := range []string{"127.0.0.1:6380", "127.1.2.3:0", "[::1]:6380", "localhost:6380", "unix:/tmp/leash"} {
		if c := mustParse(t, nil, "--listen", listen); !c.Embedded() {
			t.Errorf("%s: it is not embedded", listen)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"--nonsense", "--nonsense is not a flag: see --help"},
		{"--listen", "--listen needs a value"},
		{"-listen=:1", "a flag begins with one dash: write two dashes, as in --listen"},
		{"---listen=:1", "an argument is not a flag: write --flag value or --flag=value"},
		{"start", "an argument is not a flag: write --flag value, and quote values with spaces"},
		{"--listen=:1,,:2", `--listen ":1,,:2" has an empty entry`},
		{"--max-clients=many", `--max-clients "many" is not a whole number`},
		{"--max-args=99999999999999999999", `--max-args "99999999999999999999" is too large a number`},
		{"--max-bulk=1tb", `--max-bulk "1tb" is not a size such as 1048576, 64kb, 16mb, 1gb or 512MiB`},
		{"--peer-timeout=30", `--peer-timeout "30" has no unit: write 30s for seconds, or ms, m, h`},
		{"--peer-timeout=soon", `--peer-timeout "soon" is not a duration such as 500ms, 30s, 10m or 24h`},
		{"--upstream-mode=sharded", `--upstream-mode "sharded" is not one of auto, cluster, standalone, sentinel`},
		{"--log-level=loud", `--log-level "loud" is not one of debug, info, warn, error`},
		{"--log-level=info+2", `--log-level "info+2" is not one of debug, info, warn, error`},
		{"--trust-clients=maybe", `--trust-clients "maybe" is neither true nor false`},
		{"--version=maybe", `--version "maybe" is neither true nor false`},
		{"--watchdog-timeout=500ms", "--watchdog-timeout 500ms is too small: give 1s or more"},
	} {
		if got := mustRefuse(t, nil, c.args); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.args, got, c.want)
		}
	}
}

// TestParseRefusesAllVariablesAtOnce: one error lists all wrong variables.
func TestParseRefusesAllVariablesAtOnce(t *testing.T) {
	got := mustRefuse(t, map[string]string{"LEASH_MAX_ARGS": "x", "LEASH_LOG_FORMAT": "xml"})
	want := `--log-format (from LEASH_LOG_FORMAT) "xml" is not one of text, json` + "\n" +
		`--max-args (from LEASH_MAX_ARGS) "x" is not a whole number`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPasswordFile(t *testing.T) {
	for content, want := range map[string]Secret{
		"secret":            "secret",
		"secret\n":          "secret",
		"secret\r\n":        "secret",
		" sec ret \n":       " sec ret ",
		"two\nlines\n":      "two\nlines",
		"two ends here\n\n": "two ends here\n",
	} {
		c := mustParse(t, nil, "--upstream", "a:1", "--upstream-password-file", writeFile(t, content))
		if c.UpstreamPassword != want {
			t.Errorf("%q: got %q, want %q", content, string(c.UpstreamPassword), string(want))
		}
	}
}

func TestPasswordCommand(t *testing.T) {
	c := mustParse(t, nil, "--upstream", "a:1", "--upstream-user", "leash", "--trust-clients",
		"--upstream-password-command", "  /bin/echo a  'b c' ")
	if got, err := c.PasswordSource().First(); got != "a 'b c'" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--upstream-password", "x"}, "--upstream-password are both set: give one of them"},
		{[]string{"--upstream-password-file", writeFile(t, "a")}, "--upstream-password-file are both set: give one of them"},
		{[]string{"--upstream-password-ttl", "10ms"}, "--upstream-password-ttl 10ms is too small: give 1s or more"},
		{[]string{"--upstream", "redis://leash:pw@a:1"}, "--upstream"},
	} {
		args := append([]string{"--upstream-password-command", "/bin/echo x"}, row.args...)
		if row.args[0] != "--upstream" {
			args = append(args, "--upstream", "a:1")
		}
		if got := mustRefuse(t, nil, args...); !strings.Contains(got, row.want) {
			t.Errorf("%q: got %s, want %s", row.args, got, row.want)
		}
	}
	if got := mustRefuse(t, nil, "--upstream", "a:1", "--upstream-password-command", "/no/such/program"); !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	failing := mustParse(t, nil, "--upstream", "a:1", "--upstream-password-command", "/bin/false")
	if _, err := failing.PasswordSource().First(); err == nil || err.Error() != "--upstream-password-command: exit status 1" {
		t.Error(err)
	}
}

// TestSentinelPasswordFile checks the file of the sentinels' password.
func TestSentinelPasswordFile(t *testing.T) {
	args := []string{"--upstream", "a:1", "--sentinel-master", "m", "--sentinel-user", "u", "--sentinel-password-file"}
	file := writeFile(t, "secret\n")
	if c := mustParse(t, nil, append(args, file)...); c.SentinelPassword != "secret" || c.SentinelPasswordSource() == nil {
		t.Errorf("got %q", c.SentinelPassword)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(args, t.TempDir()), "is a directory"},
		{append(args, writeFile(t, "")), "is empty"},
		{append(args, file, "--sentinel-password", "b"), "give one of them"},
		{[]string{"--upstream", "a:1", "--sentinel-password-file", file}, "is for sentinels"},
	} {
		if got := mustRefuse(t, nil, c.args...); !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestPasswordFileRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--upstream-password-file", missing}, "no such file"},
		{[]string{"--upstream-password-file", t.TempDir()}, "is a directory"},
		{[]string{"--upstream-password-file", writeFile(t, "\n")}, "is empty"},
		{[]string{"--upstream-password-file", writeFile(t, strings.Repeat("x", maxPassword+1))}, "larger than 64KiB"},
		{[]string{"--upstream-password-file", writeFile(t, "a"), "--upstream-password", "b"}, "give one of them"},
	} {
		got := mustRefuse(t, nil, append(c.args, "--upstream", "a:1")...)
		if !strings.Contains(got, "--upstream-password-file") || !strings.Contains(got, c.want) {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}

// TestPasswordNeverShows makes all the usual mistakes with a password.
func TestPasswordNeverShows(t *testing.T) {
	const password = "hunter2"
	vars := map[string]string{"LEASH_UPSTREAM_PASSWORD": password}
	for _, c := range []struct {
		vars map[string]string
		args []string
	}{
		{nil, []string{"-upstream-password=" + password}},
		{nil, []string{"-upstream-password", password}},
		{nil, []string{"---upstream-password=" + password}},
		{nil, []string{"--=" + password}},
		{nil, []string{"--upstream-pass=" + password}},
		{nil, []string{"--upstream-password", "correct", password}},
		{nil, []string{"--upstream-password", password}},
		{nil, []string{"--upstream-password=" + password, "--upstream-password-file", "x", "--upstream", "a:1"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:1", "--max-args", "1"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:1,,b:1"}},
		{nil, []string{"--upstream", "redis://me:," + password + "@a:1"}},
		{nil, []string{"--upstream", "redis://" + password + "\xff,x@a:1"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:1/3"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:1?db=3"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:port"}},
		{nil, []string{"--upstream", "redis://me:" + password + "@a:1", "--upstream-password", "other"}},
		{map[string]string{"LEASH_UPSTREAM": "redis://me:" + password + "@a:1,,b:1"}, nil},
		{nil, []string{"--upstream", "a:1,me:" + password + "@a:1"}},
		{vars, nil},
		{vars, []string{"--max-args", "1", "--upstream", "a:1"}},
		{vars, []string{"--max-args", "x"}},
		{vars, []string{"--nonsense"}},
	} {
		if got := mustRefuse(t, c.vars, c.args...); strings.Contains(got, password) {
			t.Errorf("%q: %s", c.args, got)
		}
	}
	_, err := Parse([]string{"--upstream-password", password, "--help"}, environment(vars))
	if strings.Contains(err.Error(), password) {
		t.Error("--help shows the password")
	}
}

// TestParseRefusesWhiteSpaceThatIsNotMeant: white space in a name or an address comes from a
// template or a file.
func TestParseRefusesWhiteSpaceThatIsNotMeant(t *testing.T) {
	for want, args := range map[string][]string{
		`--upstream-user " app" has white space in it: give the name alone`:   {"--upstream-user", " app", "--upstream-password", "x"},
		`--sentinel-master "a b" has white space in it: give the name alone`:  {"--sentinel-master", "a b"},
		`--upstream "a b:1" is not an address: give host:port or [ipv6]:port`: {"--upstream", "a b:1"},
	} {
		if args[0] != "--upstream" {
			args = append(args, "--upstream", "a:1")
		}
		if got := mustRefuse(t, nil, args...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, content := range []string{"", "\n", " \n", "\r\n", "\n\n", "\t"} {
		got := mustRefuse(t, nil, "--upstream", "a:1", "--upstream-password-file", writeFile(t, content))
		if !strings.Contains(got, "is empty: put the password in it") {
			t.Errorf("%q: %s", content, got)
		}
	}
}

// TestParseURL checks what a URL in --upstream stands for.
func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		args string
		want Config
	}{
		{"rediss://a:1", Config{Upstream: []string{"a:1"}, UpstreamTLS: true}},
		{"redis://a", Config{Upstream: []string{"a:6379"}}},
		{"redis://[::1]:7/0", Config{Upstream: []string{"[::1]:7"}}},
		{"rediss://me:s%2C%40@a:1/,b:2", Config{Upstream: []string{"a:1", "b:2"}, UpstreamTLS: true, UpstreamUser: "me", UpstreamPassword: "s,@"}},
		{"rediss://:secret@a:1,rediss://:secret@b:1", Config{Upstream: []string{"a:1", "b:1"}, UpstreamTLS: true, UpstreamPassword: "secret"}},
	} {
		got := mustParse(t, nil, "--upstream", c.args)
		got = Config{Upstream: got.Upstream, UpstreamTLS: got.UpstreamTLS, UpstreamUser: got.UpstreamUser, UpstreamPassword: got.UpstreamPassword}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v", c.args, got)
		}
	}
	for _, c := range []struct {
		args []string
		want error
	}{
		{[]string{"redis://a:port"}, errURL},
		{[]string{"redis://"}, errURL},
		{[]string{"redis://me:99999,secret@a:1"}, errURL},
		{[]string{"redis://a:1/3"}, errURLDatabase},
		{[]string{"redis://a:1?x=y"}, errURLOptions},
		{[]string{"redis://a:1", "--upstream-tls"}, errURLTLS},
		{[]string{"redis://a:1,rediss://b:1"}, errURLTLS},
		{[]string{"redis://a:b@a:1,redis://a:c@b:1"}, errURLPassword},
		{[]string{"redis://a:1", "--sentinel-master", "m"}, errURLOfSentinel},
	} {
		if got := mustRefuse(t, nil, append([]string{"--upstream"}, c.args...)...); got != c.want.Error() {
			t.Errorf("%q: got %s", c.args, got)
		}
	}
}
