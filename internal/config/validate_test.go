package config

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// TestZeroNamesEverything: each line of the error for a zero Config names a flag and says what is
// allowed.
func TestZeroNamesEverything(t *testing.T) {
	err := Config{}.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "--") || !strings.Contains(line, "give") && !strings.Contains(line, "one of") {
			t.Errorf("the line names no flag or no allowed value: %s", line)
		}
	}
}

// TestValidate changes one setting of the default. want is the error; empty: it is valid.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"listen nowhere", func(c *Config) { c.Listen = nil }, "--listen is empty: give host:port or unix:/path"},
		{"listen everywhere", func(c *Config) {
			c.Listen = []string{":6380", "[::]:6381", "localhost:0", "unix:/run/leash"}
			c.Upstream = []string{"a:1"}
		}, ""},
		{"listen without port", func(c *Config) { c.Listen = []string{"localhost"} },
			`--listen "localhost" is not an address: give host:port, [ipv6]:port, :port or unix:/path`},
		{"listen on a service", func(c *Config) { c.Listen = []string{":redis"} },
			`--listen ":redis" is not an address: give host:port, [ipv6]:port, :port or unix:/path`},
		{"listen past the last port", func(c *Config) { c.Listen = []string{":65536"} },
			`--listen ":65536" is not an address: give host:port, [ipv6]:port, :port or unix:/path`},
		{"announce a word", func(c *Config) { c.Announce = "leash" }, `--announce "leash" is not an address: give host:port or [ipv6]:port`},
		{"announce no host", func(c *Config) { c.Announce = ":6380" }, `--announce ":6380" is not an address: give host:port or [ipv6]:port`},
		{"announce port zero", func(c *Config) { c.Announce = "a:0" }, `--announce "a:0" is not an address: give host:port or [ipv6]:port`},
		{"announce a list", func(c *Config) { c.Announce = "a,b:1" }, `--announce "a,b:1" is not an address: give host:port or [ipv6]:port`},
		{"announce everywhere", func(c *Config) { c.Announce = "0.0.0.0:6380" },
			`--announce "0.0.0.0:6380" is not an address that clients can connect to: give the one they use`},
		{"a header on unix sockets", func(c *Config) { c.ProxyProtocol, c.Listen = true, []string{"unix:/a"} },
			"--proxy-protocol is for TCP, but --listen has unix sockets only: give a host:port, or remove the flag"},
		{"a header beside a unix socket", func(c *Config) { c.ProxyProtocol, c.Listen = true, []string{"unix:/a", "127.0.0.1:1"} }, ""},
		{"listen twice", func(c *Config) { c.Listen = []string{":1", ":1"} }, `--listen ":1" is given twice: give it once`},
		{"listen on two free ports", func(c *Config) { c.Listen = []string{"[::1]:0", "[::1]:0"} }, ""},
		{"unix without path", func(c *Config) { c.Listen = []string{"unix:"} }, `--listen "unix:" has no path: give unix:/path`},
		{"unix with a long path", func(c *Config) { c.Listen = []string{"unix:" + strings.Repeat("x", 108)} },
			`--listen "unix:` + strings.Repeat("x", 108) + `" has a path longer than 107 bytes: give a shorter one`},

		{"TLS", func(c *Config) { c.TLSListen, c.TLSCert, c.TLSKey = []string{"127.0.0.1:6381"}, "a", "b" }, ""},
		{"TLS without a key", func(c *Config) { c.TLSListen, c.TLSCert = []string{"127.0.0.1:6381"}, "a" },
			"--tls-listen needs a certificate: give --tls-cert and --tls-key"},
		{"TLS nowhere", func(c *Config) { c.TLSCert, c.TLSKey = "a", "b" },
			"--tls-cert, --tls-key and --tls-client-ca are for --tls-listen: give it, or remove them"},
		{"TLS on a unix socket", func(c *Config) { c.TLSListen, c.TLSCert, c.TLSKey = []string{"unix:/a"}, "a", "b" },
			`--tls-listen "unix:/a" is not an address: give host:port, [ipv6]:port or :port`},
		{"TLS on the plain port", func(c *Config) { c.TLSListen, c.TLSCert, c.TLSKey = []string{"127.0.0.1:6380"}, "a", "b" },
			`--tls-listen "127.0.0.1:6380" and --listen are the same address: give each its own port`},
		{"TLS twice", func(c *Config) { c.TLSListen, c.TLSCert, c.TLSKey = []string{"[::1]:1", "[::1]:1"}, "a", "b" },
			`--tls-listen "[::1]:1" is given twice: give it once`},
		{"TLS for all in front of an embedded Redis", func(c *Config) { c.TLSListen, c.TLSCert, c.TLSKey = []string{":6381"}, "a", "b" },
			`--upstream names no Redis, but --listen ":6381" serves other machines: name the Redis, ` +
				"or give --upstream embedded to try Leash with locks in this process only"},
		{"users of certificates", func(c *Config) { setTLSUsers(c) }, ""},
		{"users of certificates that are not verified", func(c *Config) { setTLSUsers(c); c.TLSClientCA = "" },
			"--tls-user-from needs verified certificates: give --tls-client-ca"},
		{"users of certificates without passwords", func(c *Config) { setTLSUsers(c); c.TLSUsersFile = "" },
			"--tls-user-from needs the passwords of the users, because Redis demands one: give --tls-users-file"},
		{"passwords for no users", func(c *Config) { setTLSUsers(c); c.TLSUserFrom = "none" },
			"--tls-users-file is for --tls-user-from: give it, or remove the file"},
		{"users of certificates beside trusted clients",
			func(c *Config) { setTLSUsers(c); c.TrustClients, c.UpstreamPassword = true, "x" },
			"--tls-user-from and --trust-clients contradict each other: a certificate without a user " +
				"would have the rights of Leash's own user, so remove one of them"},
		{"users of certificates in an embedded Redis", func(c *Config) { setTLSUsers(c); c.Upstream = nil },
			"--tls-user-from needs --upstream: the embedded Redis has no users"},
		{"users from elsewhere", func(c *Config) { setTLSUsers(c); c.TLSUserFrom = "dn" },
			`--tls-user-from "dn" is not one of none, cn, san-uri`},
		{"TLS with an embedded Redis", func(c *Config) { c.UpstreamTLS = true },
			"--upstream-tls needs --upstream: the embedded Redis does not speak TLS"},
		{"a certificate without its key", func(c *Config) {
			c.Upstream, c.UpstreamTLS, c.UpstreamTLSCert = []string{"a:1"}, true, "a"
		}, "--upstream-tls-cert and --upstream-tls-key belong together: give both"},
		{"an authority without TLS", func(c *Config) { c.Upstream, c.UpstreamTLSCA = []string{"a:1"}, "a" },
			"--upstream-tls-ca, -cert and -server-name are for --upstream-tls: give it, or remove them"},
		{"half a pair for sentinels", func(c *Config) {
			c.Upstream, c.SentinelMaster, c.SentinelTLS, c.SentinelTLSCert = []string{"a:1"}, "m", true, "a"
		}, "--sentinel-tls-cert and --sentinel-tls-key belong together: give both"},
		{"a name of sentinels without TLS", func(c *Config) { c.Upstream, c.SentinelTLSServerName = []string{"a:1"}, "a" },
			"--sentinel-tls-ca, -cert and -server-name are for --sentinel-tls: give it, or remove them"},
		{"TLS with no sentinels", func(c *Config) { c.Upstream, c.SentinelTLS = []string{"a:1"}, true },
			"--sentinel-tls is for sentinels: give --sentinel-master, or --upstream-tls for Redis itself"},

		{"upstream", func(c *Config) { c.Upstream = []string{"redis:6379", "[::1]:6379"} }, ""},
		{"upstream without port", func(c *Config) { c.Upstream = []string{"redis"} },
			`--upstream "redis" is not an address: give host:port or [ipv6]:port`},
		{"upstream without host", func(c *Config) { c.Upstream = []string{":6379"} },
			`--upstream ":6379" is not an address: give host:port or [ipv6]:port`},
		{"upstream with port 0", func(c *Config) { c.Upstream = []string{"a:0"} },
			`--upstream "a:0" is not an address: give host:port or [ipv6]:port`},
		{"upstream twice", func(c *Config) { c.Upstream = []string{"a:1", "a:1"} }, `--upstream names "a:1" twice: name it once`},
		{"cluster of nothing", func(c *Config) { c.UpstreamMode = "cluster" },
			"--upstream-mode cluster needs --upstream: name a node of the cluster"},
		{"standalone of nothing", func(c *Config) { c.UpstreamMode = "standalone" }, ""},
		{"standalone of two", func(c *Config) { c.UpstreamMode, c.Upstream = "standalone", []string{"a:1", "a:2"} },
			"--upstream-mode standalone is one Redis, but --upstream names 2: name one"},

		{"sentinels", func(c *Config) {
			c.Upstream, c.SentinelMaster, c.SentinelUser, c.SentinelPassword = []string{"a:1", "b:1"}, "m", "u", "x"
		}, ""},
		{"sentinels of nothing", func(c *Config) { c.SentinelMaster = "m" }, "--sentinel-master needs --upstream: give the sentinels' host:port"},
		{"sentinels without a name", func(c *Config) { c.UpstreamMode, c.Upstream = "sentinel", []string{"a:1"} },
			"--upstream-mode sentinel needs --sentinel-master: give the master's name at the sentinels"},
		{"sentinels of a cluster", func(c *Config) { c.UpstreamMode, c.Upstream, c.SentinelMaster = "cluster", []string{"a:1"}, "m" },
			"--sentinel-master needs sentinels, but --upstream-mode is cluster: give sentinel or auto, or remove the name"},
		{"sentinel user without password", func(c *Config) { c.Upstream, c.SentinelMaster, c.SentinelUser = []string{"a:1"}, "m", "u" },
			"--sentinel-user needs a password: give --sentinel-password-file, or LEASH_SENTINEL_PASSWORD"},
		{"sentinel password without sentinels", func(c *Config) { c.SentinelPassword = "x" },
			"--sentinel-password is for sentinels: give --sentinel-master, or --upstream-password for Redis itself"},

		{"read elsewhere", func(c *Config) { c.Upstream, c.ReadFrom = []string{"a:1"}, "nearest" }, ""},
		{"read from nobody", func(c *Config) { c.ReadFrom = "replica" },
			"--read-from replica needs --upstream: the embedded Redis has no replicas"},
		{"read from all", func(c *Config) { c.ReadFrom = "any" }, `--read-from "any" is not one of master, replica, nearest`},

		{"itself", func(c *Config) { c.Upstream = []string{"127.0.0.1:6380"} },
			`--upstream "127.0.0.1:6380" and --listen "127.0.0.1:6380" are the same address: give the address of Redis, or listen elsewhere`},
		{"itself by name", func(c *Config) { c.Upstream = []string{"localhost:6380"} },
			`--upstream "localhost:6380" and --listen "127.0.0.1:6380" are the same address: give the address of Redis, or listen elsewhere`},
		{"itself by wildcard", func(c *Config) { c.Listen, c.Upstream = []string{"0.0.0.0:1"}, []string{"localhost:1"} },
			`--upstream "localhost:1" and --listen "0.0.0.0:1" are the same address: give the address of Redis, or listen elsewhere`},
		{"itself by no host", func(c *Config) { c.Listen, c.Upstream = []string{":1"}, []string{"127.0.0.1:1"} },
			`--upstream "127.0.0.1:1" and --listen ":1" are the same address: give the address of Redis, or listen elsewhere`},
		{"another host", func(c *Config) { c.Listen, c.Upstream = []string{":6379"}, []string{"10.0.0.1:6379", "redis:6379"} }, ""},

		{"user without password", func(c *Config) { c.Upstream, c.UpstreamUser = []string{"a:1"}, "u" },
			"--upstream-user needs a password: give --upstream-password-file, or LEASH_UPSTREAM_PASSWORD"},
		{"password without upstream", func(c *Config) { c.UpstreamPassword = "x" },
			"--upstream-password needs --upstream: the embedded Redis has no password"},
		{"trust without password", func(c *Config) { c.TrustClients = true },
			"--trust-clients gives clients the rights of the upstream user: give that user's password, or remove the flag"},
		{"trust", func(c *Config) { c.Upstream, c.UpstreamPassword, c.TrustClients = []string{"a:1"}, "x", true }, ""},

		{"no clients", func(c *Config) { c.MaxClients = 0 }, "--max-clients 0 is too small: give 1 or more"},
		{"too many clients", func(c *Config) { c.MaxClients = 1000001 }, "--max-clients 1000001 is too large: give 1000000 or less"},
		{"small bulk", func(c *Config) { c.MaxBulk = 1 << 10 }, "--max-bulk 1KiB is too small: give 1MiB or more"},
		{"large bulk", func(c *Config) { c.MaxBulk = 5 << 30 }, "--max-bulk 5GiB is too large: give 4GiB or less"},
		{"few args", func(c *Config) { c.MaxArgs = 3 }, "--max-args 3 is too small: give 1024 or more"},
		{"unknown limit", func(c *Config) { c.LimitUser = []string{"cats=1"} },
			`--limit-user has an unknown kind "cats": give clients, blocked, waiters, holds, subscriptions, commands, output`},
		{"wrong limit", func(c *Config) { c.LimitUser = []string{"holds=0"} },
			"--limit-user has no number from 1 to 1000000000 for holds: write holds=100"},
		{"small output of a user", func(c *Config) { c.LimitUser = []string{"output=1000"} },
			"--limit-user has no size of 1MiB or more for output: write output=64MiB"},
		{"small memory", func(c *Config) { c.MaxMemory = mib }, "--max-memory 1MiB is too small: give 64MiB or more"},
		{"holds without number", func(c *Config) { c.LimitNameHolds = []string{"a*=30s"} },
			`--limit-name-holds has no number from 1 to 1000000000 for "a*": write order:*=100`},
		{"holds without pattern", func(c *Config) { c.LimitNameHolds = []string{"=3"} },
			`--limit-name-holds has "=3", which is not a pattern with a number: write order:*=100`},
		{"hold without time", func(c *Config) { c.LimitHold = []string{"a*"} },
			`--limit-hold has "a*", which is not a pattern with a time: write order:*=30s`},
		{"short hold", func(c *Config) { c.LimitHold = []string{"a*=1ms"} },
			`--limit-hold has no time of 100ms or more for "a*": write order:*=30s`},
		{"short login", func(c *Config) { c.LimitLogin = time.Millisecond }, "--limit-login 1ms is too small: give 1s or more"},
		{"auth and trust", func(c *Config) {
			c.RequireAuth, c.TrustClients, c.Upstream, c.UpstreamPassword = true, true, []string{"a:1"}, "x"
		}, "--require-auth and --trust-clients contradict each other: remove one of them"},
		{"auth without users", func(c *Config) { c.RequireAuth = true },
			"--require-auth needs --upstream: the embedded Redis has no users"},
		{"small output", func(c *Config) { c.MaxClientOutput = 0 }, "--max-client-output 0 is too small: give 1MiB or more"},
		{"short peer timeout", func(c *Config) { c.PeerTimeout = time.Second }, "--peer-timeout 1s is too small: give 4s or more"},
		{"negative drain", func(c *Config) { c.DrainTimeout = -time.Second }, "--drain-timeout -1s is too small: give 0 or more"},
		{"no drain", func(c *Config) { c.DrainTimeout = 0 }, ""},
		{"no redirects", func(c *Config) { c.RedirectTimeout = 0 }, ""},
		{"short upstream timeout", func(c *Config) { c.UpstreamTimeout = time.Second }, "--upstream-timeout 1s is too small: give 2s or more"},

		{"watchdog of the tests", func(c *Config) { c.WatchdogTimeout = 3 * time.Second }, ""},
		{"short watchdog", func(c *Config) { c.WatchdogTimeout = 999 * time.Millisecond },
			"--watchdog-timeout 999ms is too small: give 1s or more"},
		{"long watchdog", func(c *Config) { c.WatchdogTimeout, c.TokenTTL = 25*time.Hour, 0 },
			"--watchdog-timeout 25h is too large: give 24h or less"},
		{"tokens for ever", func(c *Config) { c.TokenTTL = 0 }, ""},
		{"tokens shorter than locks", func(c *Config) { c.TokenTTL = 29 * time.Second },
			"--token-ttl 29s is shorter than --watchdog-timeout 30s: give that much or more, or 0 for no limit"},
		{"unknown ending", func(c *Config) { c.OnDisconnect = "keep" }, `--on-disconnect "keep" is not one of auto, release, expire`},
		{"unknown channel", func(c *Config) { c.LockPublish = "" }, `--lock-publish "" is not one of both, sharded, plain`},
		{"short grace", func(c *Config) { c.Upstream, c.FailoverGrace = []string{"a:1"}, 10*time.Second },
			"--failover-grace 10s is shorter than --watchdog-timeout 30s: give auto, or more than that"},
		{"long grace", func(c *Config) { c.Upstream, c.FailoverGrace = []string{"a:1"}, 100*time.Hour },
			"--failover-grace 100h is too large: give 48h or less"},
		{"grace of nothing", func(c *Config) { c.FailoverGrace = Auto }, "--failover-grace needs --upstream: the embedded Redis has no failover"},
		{"short hold", func(c *Config) { c.MaxHold = time.Millisecond }, "--max-hold 1ms is too small: give 100ms or more"},
		{"no waiters", func(c *Config) { c.MaxWaiters = 0 }, "--max-waiters 0 is too small: give 1 or more"},
		{"no threads", func(c *Config) { c.Threads = 0 }, "--threads 0 is too small: give 1 or more"},
		{"unknown format", func(c *Config) { c.LogFormat = "xml" }, `--log-format "xml" is not one of text, json`},
	} {
		config := Default()
		c.change(&config)
		got := ""
		if err := config.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// setTLSUsers makes certificates name users.
func setTLSUsers(c *Config) {
	c.Upstream = []string{"a:1"}
	c.TLSListen, c.TLSCert, c.TLSKey, c.TLSClientCA = []string{"127.0.0.1:6381"}, "a", "b", "c"
	c.TLSUserFrom, c.TLSUsersFile = "cn", "d"
}
