package config

import (
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// An option is one setting as flag, as environment variable and as a paragraph of --help.
type option struct {
	name  string
	value value
	// help says the effect, then the limits. The default follows by itself.
	help string
	// unset is how --help writes an empty default.
	unset string
}

// env is the option's environment variable: LEASH_MAX_CLIENTS for max-clients.
func (o option) env() string {
	return "LEASH_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// A group is the options under one heading of --help.
type group struct {
	title   string
	options []option
}

// groups binds every setting of c to its option. What c holds now are the defaults that --help
// shows.
func groups(c *Config) []group {
	return []group{
		{"Clients", clientOptions(c)},
		{"Redis", upstreamOptions(c)},
		{"Locks", lockOptions(c)},
		{"Process", processOptions(c)},
	}
}

func clientOptions(c *Config) []option {
	return []option{
		{name: "listen", value: list("address", &c.Listen),
			help: "Where clients connect: host:port, :port for every interface, or unix:/path for a unix socket. " +
				"Repeat the flag, or separate by commas, for more than one. Port 0 is any free port. " +
				"Clients are not asked for more than Redis asks them, so keep it off the internet."},
		{name: "announce", value: text("host:port", &c.Announce),
			help: "Address that clients of a Redis Cluster are told when they ask for its nodes: Leash shows itself as one node that " +
				"owns every slot. Needed where clients reach Leash by another address than its own, as through a load " +
				"balancer or a port of a container's host. A name is told as it is.",
			unset: "the address that the client connected to"},
		{name: "proxy-protocol", value: boolean(&c.ProxyProtocol),
			help: "Clients come through load balancers that say in front of each connection, by the PROXY protocol (version 1 or 2), " +
				"whose it is. Counts for every host:port of --listen, not for unix sockets; a connection that does not begin so is " +
				"closed, and whoever reaches the port can name any address, so let only balancers reach it."},
		{name: "max-clients", value: count("n", &c.MaxClients),
			help: "Client connections served at once; more are answered as Redis does, with an error, and closed. 1 to 1000000."},
		{name: "max-bulk", value: size("size", &c.MaxBulk),
			help: "Largest argument of a command, as Redis's proto-max-bulk-len; what is less of the two counts. " +
				"A client that sends a larger one is closed. 1MiB to 4GiB."},
		{name: "max-args", value: count("n", &c.MaxArgs),
			help: "Most arguments of a command; a client that sends more is closed. 1024 to 2147483647."},
		{name: "max-client-output", value: size("size", &c.MaxClientOutput),
			help: "Replies that may wait for a client that has stopped reading; past it, it is closed once it has taken nothing " +
				"for 10s. A client that reads, however slowly, is not. 1MiB or more."},
		{name: "peer-timeout", value: duration("duration", &c.PeerTimeout),
			help: "How long the host of a client that holds or awaits a lock may be silent on the network before the connection is " +
				"given up; its locks then run out by themselves. The keepalives that find it out are sent by the kernels, " +
				"so an idle client is not silent. 4s to 10m."},
		{name: "drain-timeout", value: duration("duration", &c.DrainTimeout),
			help: "After SIGTERM, how long clients with commands in flight or locks held may go on before they are closed. " +
				"A command that blocks in Redis is not waited for. 0 (at once) to 1h."},
	}
}

func upstreamOptions(c *Config) []option {
	return []option{
		{name: "upstream", value: list("host:port,...", &c.Upstream),
			help: "The Redis to serve, or any nodes of a Redis Cluster, which then names the others, or with --sentinel-master any " +
				"sentinels. embedded is a Redis within this process, for a try: its data and its locks are nobody else's.",
			unset: "none: an embedded Redis serves, if every --listen is on loopback"},
		{name: "upstream-mode", value: choice(&c.UpstreamMode, upstreamModes...),
			help: "What the upstream is; auto asks it. sentinel follows the master that sentinels name."},
		{name: "sentinel-master", value: text("name", &c.SentinelMaster),
			help: "Name by which the sentinels at --upstream know the master. Leash serves that master, and the next one as soon " +
				"as they name it.",
			unset: "none, --upstream is no sentinel"},
		{name: "sentinel-user", value: text("name", &c.SentinelUser),
			help:  "ACL user at the sentinels, where it differs from their default one. Needs a password.",
			unset: "the sentinels' \"default\""},
		{name: "sentinel-password", value: secret("password", &c.SentinelPassword),
			help: "Password at the sentinels; that of the master is --upstream-password. Prefer the environment variable, " +
				"arguments can be read by others.",
			unset: "none, nothing is said to them"},
		{name: "upstream-user", value: text("name", &c.UpstreamUser),
			help:  "ACL user of Leash's own connections: topology, lock scripts, liveness. Needs a password.",
			unset: "Redis's own, \"default\""},
		{name: "upstream-password", value: secret("password", &c.UpstreamPassword),
			help: "Password of that user. Arguments of a process can be read by others on the machine: " +
				"prefer the environment variable or the file.",
			unset: "none"},
		{name: "upstream-password-file", value: text("path", &c.UpstreamPasswordFile),
			help:  "File that holds the password and nothing else; a line end after it is dropped. Read once, at start.",
			unset: "none"},
		{name: "read-from", value: choice(&c.ReadFrom, readFroms...),
			help: "Where commands that only read keys are served. replica: by a replica of the master, if one serves; nearest: by " +
				"whichever of them answers a PING soonest. Replicas lag behind: a read may not see a write that was answered " +
				"before, of others or of the client's own, but those before it in the same pipeline. Transactions, WATCH, and " +
				"clients that hold a lock read from masters."},
		{name: "trust-clients", value: boolean(&c.TrustClients),
			help: "Serve clients that have not said AUTH with the upstream user's rights, instead of those that Redis gives " +
				"a client without credentials. Whoever reaches a listen address then has them."},
		{name: "max-pinned", value: count("n", &c.MaxPinned),
			help: "Connections to one Redis node that clients have to themselves, as in BLPOP, MULTI, MONITOR and client-side caching. " +
				"One more is answered UPSTREAMDOWN. Where several Leashes share a Redis, give each its share of maxclients. " +
				"0 is three quarters of Redis's maxclients, and leaves 32 of it where that is possible. 0 to 1000000."},
		{name: "wait-for-upstream", value: durationOr("forever", Forever, &c.WaitForUpstream),
			help: "How long Leash waits at its start for a Redis that does not answer yet. Clients are answered with an error meanwhile. " +
				"0 is one try. A wrong password or mode ends Leash at once. 0 to 24h, or forever."},
		{name: "redirect-timeout", value: duration("duration", &c.RedirectTimeout),
			help: "How long a command is tried again while the cluster answers CLUSTERDOWN or TRYAGAIN, before the client gets " +
				"that answer. 0 (not at all) to 1m."},
		{name: "upstream-timeout", value: duration("duration", &c.UpstreamTimeout),
			help: "How long a Redis node may be silent before its connections are lost, and how long it may take to connect. " +
				"A running script silences it for 5s by default (busy-reply-threshold), so stay above that. 2s to 10m."},
	}
}

func lockOptions(c *Config) []option {
	return []option{
		{name: "watchdog-timeout", value: duration("duration", &c.WatchdogTimeout),
			help: "Time to live in Redis of a lock that lasts as long as its connection. It is renewed every third of it; a lock " +
				"whose Leash or whose Redis is gone ends after it. As Redisson's lockWatchdogTimeout. 1s to 24h."},
		{name: "on-disconnect", value: choice(&c.OnDisconnect, onDisconnects...),
			help: "What becomes of a connection's locks when it ends. auto releases them when the client closed it " +
				"and lets them run out when it broke, or the client's host was silent for --peer-timeout; with --proxy-protocol it lets them run out in both cases, for a balancer " +
				"closes as well when it has lost its client. release and expire do the one or the other in both cases. A client that says QUIT is done: then they are released. " +
				"The locks of a connection that Leash closes for another reason always run out, and so do those with LEASE or ONCLOSE EXPIRE."},
		{name: "lock-publish", value: choice(&c.LockPublish, lockPublishes...),
			help: "Channels that waiters in other processes are woken through. plain is PUBLISH, sharded is SPUBLISH (Redis 7), " +
				"which Redisson uses on a cluster; both serves all."},
		{name: "token-ttl", value: duration("duration", &c.TokenTTL),
			help: "How long the counter of a lock's fencing tokens stays in Redis after its last use. 0 is for ever, and is needed " +
				"where Redisson's RFencedLock uses the same names. 0, or from watchdog-timeout on."},
		{name: "max-hold", value: duration("duration", &c.MaxHold),
			help: "For how long any lock, which a permit is not, may be held, as MAXHOLD of LOCK.ACQUIRE says for one: then its holder is told that it is lost, " +
				"and it is released. 0 is for as long as one likes. 0, or 100ms to 8760h."},
		{name: "failover-grace", value: durationOr("auto", Auto, &c.FailoverGrace),
			help: "After a failover, and after a restart of Redis, for how long no locks and permits are granted on the new master: a lock that it " +
				"may have forgotten is then over, or put back by its Leash. auto is watchdog-timeout and as long as an old master may serve on: " +
				"cluster-node-timeout, or min-replicas-max-lag without a cluster. 0 is not at all: a failover can then give a lock to two. All Leashes before " +
				"one Redis must have the same. 0, auto, or from watchdog-timeout on, to 48h."},
		{name: "max-waiters", value: count("n", &c.MaxWaiters),
			help: "Commands that may wait for locks, permits and latches at once; one more is answered LOCKLIMIT. 1 to 1000000."},
	}
}

func processOptions(c *Config) []option {
	return []option{
		{name: "threads", value: count("n", &c.Threads),
			help: "Threads that work at once. One costs the least CPU a command and is enough for one Redis; more carry more. " +
				"1 to 1024. The default is half of the cores this process may use, at least 1. While the garbage of much memory is collected, there are up to 4."},
		{name: "log-level", value: level(&c.LogLevel),
			help: "Least level that is logged, to standard error."},
		{name: "log-format", value: choice(&c.LogFormat, logFormats...),
			help: "How a log line looks."},
	}
}

// The closed sets of words.
var (
	upstreamModes = []string{"auto", "cluster", "standalone", "sentinel"}
	readFroms     = []string{"master", "replica", "nearest"}
	onDisconnects = []string{"auto", "release", "expire"}
	lockPublishes = []string{"both", "sharded", "plain"}
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

// flagSet returns the flags of all groups. Defined last, --version is no setting: it has no
// environment variable, and LEASH_VERSION stays free for whoever deploys.
func flagSet(gs []group, version *bool) *pflag.FlagSet {
	fs := pflag.NewFlagSet("leash", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, g := range gs {
		for _, o := range g.options {
			f := fs.VarPF(&single{value: o.value}, o.name, "", o.help)
			if o.value.kind == kindBool {
				f.NoOptDefVal = "true"
			}
		}
	}
	fs.VarPF(boolean(version), "version", "", "").NoOptDefVal = "true"
	return fs
}
