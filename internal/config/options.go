package config

import (
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// An option is one setting: a flag, an environment variable, an entry of --help and a section of
// docs/configuration.md.
type option struct {
	name  string
	value value
	// first says that --help shows the option; --help-all shows all options.
	first bool
	// summary is the effect in one sentence. It fits on one line of --help.
	summary string
	// details are further paragraphs for docs/configuration.md, each of one or a few sentences.
	details []string
	// limits says which values are allowed, if the kind does not say it. A range is
	// written "1 to 1000000" and includes both ends.
	limits string
	// defaultIs describes the default, if the value is empty or differs between machines.
	defaultIs string
	// live says that the setting may change while Leash runs (see Config.Adopt).
	live bool
}

// env is the option's environment variable: LEASH_MAX_CLIENTS for max-clients.
func (o option) env() string {
	return "LEASH_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// A group is the options under one heading.
type group struct {
	title   string
	options []option
}

// groups binds every setting of c to its option. The current values of c are the defaults that
// --help shows.
func groups(c *Config) []group {
	return []group{
		{"Clients", clientOptions(c)},
		{"Redis", upstreamOptions(c)},
		{"TLS", tlsOptions(c)},
		{"Access", accessOptions(c)},
		{"Limits", limitOptions(c)},
		{"Locks", lockOptions(c)},
		{"Administration", adminOptions(c)},
		{"Process", processOptions(c)},
	}
}

func upstreamOptions(c *Config) []option {
	return slices.Concat(redisOptions(c), passwordOptions(c), relayOptions(c))
}

// redisOptions say which Redis it is.
func redisOptions(c *Config) []option {
	return []option{
		{name: "upstream", value: list("host:port,...", &c.Upstream), first: true,
			summary: "The Redis to serve, some nodes of a cluster, or sentinels with --sentinel-master.",
			details: []string{
				"One node of a cluster is enough, because it names the others. " +
					"Name several, so that Leash can start while one of them is down. " +
					"Remove a node that moves to another cluster. Until you do, Leash stays with the " +
					"cluster that it knows, but a new Leash does not start.",
				"A URL works too: `rediss://user:password@host:port` is the address, `--upstream-tls`, " +
					"`--upstream-user` and the password together. `redis://` is the same without TLS. " +
					"Write special characters of the password as in any URL, such as `%2C` for a comma. " +
					"Leash hides a URL with a password from the list of processes once it has started.",
				"The word `embedded` starts a small Redis inside the process, to try Leash out. " +
					"Its data and its locks exist in this process only.",
			},
			defaultIs: "an embedded Redis, if every `--listen` is on this machine only"},
		{name: "upstream-mode", value: choice(&c.UpstreamMode, upstreamModes...),
			summary: "Kind of server at --upstream; auto asks the server.",
			details: []string{"`sentinel` follows the master that the sentinels name."}},
		{name: "sentinel-master", value: text("name", &c.SentinelMaster), first: true,
			summary:   "Name of the master that the sentinels at --upstream watch.",
			details:   []string{"Leash serves that master, and the next one as soon as the sentinels promote it."},
			defaultIs: "none: `--upstream` is not a sentinel",
			limits:    "no spaces"},
		{name: "sentinel-user", value: text("name", &c.SentinelUser),
			summary:   "ACL user for the sentinels; needs --sentinel-password.",
			defaultIs: "the user \"default\"",
			limits:    "no spaces"},
		{name: "sentinel-password", value: secret("password", &c.SentinelPassword),
			summary: "Password for the sentinels; better set by the variable.",
			details: []string{
				"Leash hides it from the list of processes once it has started. " +
					"For the password of the master, use `--upstream-password-file`.",
			},
			defaultIs: "none: Leash sends no AUTH to the sentinels"},
		{name: "sentinel-password-file", value: text("path", &c.SentinelPasswordFile),
			summary: "File with the password for the sentinels.",
			details: []string{
				"The file holds the password and nothing else. " +
					"Leash reads it again for each new connection to a sentinel. " +
					"It opens one every 2 s, so a new password needs no restart. " +
					"If Leash cannot read the file, it uses the last password.",
			},
			defaultIs: "none",
			limits:    "at most 64KiB; not together with `--sentinel-password`"},
	}
}

// passwordOptions are about Leash's own user.
func passwordOptions(c *Config) []option {
	return []option{
		{name: "upstream-user", value: text("name", &c.UpstreamUser), first: true,
			summary: "ACL user of Leash's own connections to Redis; needs a password.",
			details: []string{
				"Leash uses this user for its own work: the topology, the lock scripts, the health checks. " +
					"Clients do not get its rights, unless you set `--trust-clients`.",
			},
			defaultIs: "the user \"default\"",
			limits:    "no spaces"},
		{name: "upstream-password", value: secret("password", &c.UpstreamPassword),
			summary:   "Password of --upstream-user; better given by the variable or a file.",
			details:   []string{"Leash hides it from the list of processes once it has started."},
			defaultIs: "none"},
		{name: "upstream-password-file", value: text("path", &c.UpstreamPasswordFile), first: true,
			summary: "File with the password of Leash's own connections to Redis.",
			details: []string{
				"The file holds the password and nothing else. Leash ignores a line end after it.",
				"Leash reads the file again every second, for each new connection to Redis, and on SIGHUP. " +
					"So a new password needs no restart. " +
					"Add the new password in Redis, replace the file with `mv`, and then remove the old password. " +
					"If Leash cannot read the file, it uses the last password.",
				"Open connections get an `AUTH` with the new password, and none ends.",
			},
			defaultIs: "none",
			limits:    "at most 64KiB; not together with `--upstream-password`"},
		{name: "upstream-password-command", value: words("command", &c.UpstreamPasswordCommand),
			summary: "Program that writes the password, such as a token, to its output.",
			details: []string{
				"Leash runs the program without a shell. Spaces separate its arguments, and quotes mean nothing: " +
					"write a script for anything else. The output is the password; Leash ignores a line end after it.",
				"Leash runs it again after `--upstream-password-ttl`, and when Redis refuses the password. " +
					"Open connections then get an `AUTH` with the new password, and none ends. " +
					"It may take 10 s. If it fails, Leash uses the last password.",
				"Leash shows nothing of what the program writes, not even its errors, because these may contain secrets. " +
					"Other users of the machine can read its arguments.",
			},
			defaultIs: "none",
			limits:    "not together with another password"},
		{name: "upstream-password-ttl", value: duration("duration", &c.UpstreamPasswordTTL),
			summary: "How long Leash uses a password of --upstream-password-command.",
			details: []string{"Give less than the time for which a token is valid."},
			limits:  "1s to 24h"},
	}
}

// relayOptions are about the commands of clients.
func relayOptions(c *Config) []option {
	return []option{
		{name: "read-from", value: choice(&c.ReadFrom, readFroms...),
			summary: "Where commands that only read are executed.",
			details: []string{
				"`replica` uses a replica of the master, if one answers. " +
					"`nearest` uses the master or the replica that answers a `PING` soonest.",
				"A replica lags behind its master. A read from it can miss an earlier write, " +
					"even one of the same client. Only the earlier writes of its own pipeline are certainly seen.",
				"Transactions, `WATCH`, and clients that hold a lock always read from the master.",
			}},
		{name: "trust-clients", value: boolean(&c.TrustClients), first: true,
			summary: "Give clients that send no AUTH the rights of --upstream-user.",
			details: []string{
				"Without the flag, such a client has the rights that Redis gives to a client without a password. " +
					"With the flag, everybody who reaches the port has the rights of Leash's own user.",
			},
			limits: "needs a password of Leash's own user"},
		{name: "max-pinned", value: count("n", &c.MaxPinned), live: true, defaultIs: "0: three quarters of Redis's maxclients",
			summary: "How many connections to one Redis node can be reserved for single clients.",
			details: []string{
				"`BLPOP`, `MULTI`, `MONITOR`, client-side caching and `REPLICAS` need such a connection. A command " +
					"that would need one more gets `UPSTREAMDOWN`. An acquire with `REPLICAS` gets `NOREPLICAS`.",
				"0 means three quarters of Redis's `maxclients`. At least 32 of its connections stay free, if possible. " +
					"If several Leashes share a Redis, give each of them a part of that number.",
			},
			limits: "0 to 1000000"},
		{name: "wait-for-upstream", value: durationOr("forever", Forever, &c.WaitForUpstream),
			summary: "How long a start waits for a Redis that does not answer.",
			details: []string{
				"A client gets one `UPSTREAMDOWN` during that time, and is closed. 0 means one attempt. " +
					"A wrong password or a wrong mode ends Leash at once.",
			},
			limits: "0 to 24h, or forever"},
		{name: "redirect-timeout", value: duration("duration", &c.RedirectTimeout),
			summary: "How long Leash retries a command that the cluster answers with CLUSTERDOWN or TRYAGAIN.",
			details: []string{"After that time the client gets the error. 0 means no retry.",
				"A command for a node that cannot be reached waits as long, also `AUTH`. Then the client gets " +
					"`UPSTREAMDOWN`."},
			limits: "0 to 1m"},
		{name: "upstream-timeout", value: duration("duration", &c.UpstreamTimeout),
			summary: "How long a Redis node may be silent before Leash closes its connections to it.",
			details: []string{
				"The same time limits how long Redis may take to answer on a new connection. On Linux it also " +
					"limits how long the network may lose what is sent on one connection.",
				"A script can silence Redis for 5 s by default (`busy-reply-threshold`). Stay above that.",
			},
			limits: "2s to 10m"},
	}
}

func processOptions(c *Config) []option {
	return []option{
		{name: "config", value: text("path", &c.File), defaultIs: "none",
			summary: "File with settings, in TOML; a flag or a variable beats its line.",
			details: []string{
				"[Above](#a-file-with-settings) is what the file looks like.",
			}},
		{name: "threads", value: count("n", &c.Threads), defaultIs: "half of the cores",
			summary: "How many threads run at once.",
			details: []string{
				"One thread costs the least CPU per command and is enough for one Redis. More threads carry more load.",
				"The default counts the cores that the process may use, and is at least 1. " +
					"Leash runs up to 4 threads while Go collects a lot of garbage.",
			},
			limits: "1 to 1024"},
		{name: "audit-log", value: text("path", &c.AuditLog), defaultIs: "none",
			summary: "File with a line for each lock that is granted, released or lost; or stderr.",
			details: []string{
				"[Operations](operations.md#audit-log) shows the lines. " +
					"A slow disk never delays a lock: Leash drops lines and counts them. " +
					"SIGHUP opens the file again.",
			}},
		{name: "slowlog-slower-than", value: durationOr("never", Never, &c.SlowlogSlowerThan), live: true,
			summary: "The least time of a command that LEASH SLOWLOG keeps.",
			details: []string{
				"The time counts from the arrival of the command until the end of its reply. " +
					"[LEASH SLOWLOG](operator-commands.md#leash-slowlog) shows where it was spent. 0 keeps every command.",
			},
			limits: "0 to 1h, or never"},
		{name: "slowlog-max-len", value: count("n", &c.SlowlogMaxLen), live: true,
			summary: "How many commands LEASH SLOWLOG keeps.",
			limits:  "1 to 100000"},
		{name: "log-level", value: level(&c.LogLevel), live: true,
			summary: "Lowest level that is logged, to standard error."},
		{name: "log-format", value: choice(&c.LogFormat, logFormats...),
			summary: "Format of a log line."},
	}
}

// The closed sets of words.
var (
	upstreamModes = []string{"auto", "cluster", "standalone", "sentinel"}
	readFroms     = []string{"master", "replica", "nearest"}
	onDisconnects = []string{"auto", "release", "expire"}
	lockPublishes = []string{"both", "sharded", "plain"}
	clientAuths   = []string{"require", "request"}
	userFroms     = []string{"none", "cn", "san-uri"}
	logFormats    = []string{"text", "json"}
	logLevels     = []string{"debug", "info", "warn", "error"}
)

func level(p *slog.Level) value {
	parse := func(s string) (l slog.Level, err error) {
		if err := oneOf(s, logLevels); err != nil {
			return l, err
		}
		return l, l.UnmarshalText([]byte(s))
	}
	format := func(l slog.Level) string { return strings.ToLower(l.String()) }
	return bind(strings.Join(logLevels, "|"), p, parse, format)
}

// requests are the flags that end the program after a text. They are not settings and have no
// environment variables. LEASH_VERSION is left to deployments.
type requests struct {
	version, helpAll, check bool
}

// flagSet returns the flags of all groups, and those of the requests.
func flagSet(gs []group, ask *requests) *pflag.FlagSet {
	fs := pflag.NewFlagSet("leash", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, g := range gs {
		for _, o := range g.options {
			f := fs.VarPF(&single{value: o.value}, o.name, "", o.summary)
			if o.value.kind == kindBool {
				f.NoOptDefVal = "true"
			}
		}
	}
	fs.VarPF(boolean(&ask.version), "version", "", "").NoOptDefVal = "true"
	fs.VarPF(boolean(&ask.helpAll), "help-all", "", "").NoOptDefVal = "true"
	fs.VarPF(boolean(&ask.check), "check-config", "", "").NoOptDefVal = "true"
	return fs
}
