// Package config reads and checks Leash's settings.
//
// Each setting is a flag (--max-clients), an environment variable (LEASH_MAX_CLIENTS) and a line of
// the file of --config (max-clients = 10000). The flag overrides the variable, the variable
// overrides the file, and the file overrides the default. [Parse] reads them and returns a [Config]
// that has passed [Config.Validate], or an error that names the wrong flag and the allowed values.
//
// A Config is a plain value. Nothing in it changes after Parse, and copies may be used
// concurrently. The package does not use the settings itself. Its only I/O is reading the files of
// settings, passwords and tokens.
package config

import (
	"log/slog"
	"runtime"
	"slices"
	"time"
)

// Config is every setting of a Leash process. The zero value is not valid; start from [Default].
type Config struct {
	// Listen is where clients are served: "host:port" or "unix:/path", at least one.
	Listen []string
	// Announce is the "host:port" announced to cluster clients; empty: the one they connected to.
	Announce string
	// ProxyProtocol requires a PROXY protocol header, from a load balancer, at the start of each
	// TCP connection.
	ProxyProtocol bool
	// MaxClients is how many client connections are served at once.
	MaxClients int
	// MaxBulk is the largest argument of a command in bytes.
	MaxBulk int64
	// MaxArgs is the largest number of arguments of a command.
	MaxArgs int
	// MaxClientOutput is how many bytes of replies may wait for a client that does not read.
	MaxClientOutput int64
	// MaxMemory is how many bytes of memory the process may use; 0: no limit.
	MaxMemory int64
	// PeerTimeout is how long the host of a client with holds or waiters may be silent.
	PeerTimeout time.Duration
	// DrainDelay is how long a stop still accepts clients before it begins.
	DrainDelay time.Duration
	// MaintNotifications lets clients ask to be told when DrainDelay begins.
	MaintNotifications bool
	// DrainTimeout is how long a stop waits for clients.
	DrainTimeout time.Duration

	// TLSListen is where clients are served with TLS: "host:port".
	TLSListen []string
	// TLSCert and TLSKey are the files of Leash's certificate for clients, and of its key.
	TLSCert, TLSKey string
	// TLSClientCA is the file of the authorities that sign clients' certificates; empty: clients
	// need none.
	TLSClientCA string
	// TLSClientAuth is require or request: whether a client must show a certificate.
	TLSClientAuth string
	// TLSUserFrom is none, cn or san-uri: which name of a client's certificate is its ACL user.
	TLSUserFrom string
	// TLSUsersFile is the file with the passwords of those users.
	TLSUsersFile string

	// RequireAuth refuses the commands of clients that have not authenticated.
	RequireAuth bool
	// ProtectedMode refuses clients of other machines while clients need no password.
	ProtectedMode bool
	// Deny are commands, and categories of commands, that no client may run.
	Deny []string
	// AllowAdmin are the users who may run commands of category @admin; empty: all.
	AllowAdmin []string

	// LimitUser are limits of each user, in the form kind=n (see package limits).
	LimitUser []string
	// LimitAddressClients is how many connections an address may have; 0: no limit.
	LimitAddressClients int
	// LimitAccepts is how many connections a second are accepted; 0: no limit.
	LimitAccepts int
	// LimitHold are the longest times for locks by patterns, in the form pattern=duration.
	LimitHold []string
	// LimitNameHolds are the most holds by patterns, in the form pattern=n.
	LimitNameHolds []string
	// LimitLogin is how long a client may take to authenticate, and LimitIdle how long it may be
	// idle; 0: no limit.
	LimitLogin, LimitIdle time.Duration

	// Upstream is the "host:port" of the Redis, or of some nodes of the cluster. If it is empty, or
	// only "embedded", Leash uses an embedded Redis.
	Upstream []string
	// UpstreamMode is auto, cluster, standalone or sentinel.
	UpstreamMode string
	// SentinelMaster is the name of the master at the sentinels that Upstream names. If it is
	// empty, Upstream is Redis itself.
	SentinelMaster string
	// SentinelUser and SentinelPassword are for the sentinels, also if the password comes from
	// SentinelPasswordFile; empty: they require none.
	SentinelUser     string
	SentinelPassword Secret
	// SentinelPasswordFile is the file that Parse read SentinelPassword from; empty: none.
	SentinelPasswordFile string
	// UpstreamUser is the ACL user of Leash's own connections; empty: the default user.
	UpstreamUser string
	// UpstreamPassword is that user's password, also if it comes from UpstreamPasswordFile; empty:
	// none.
	UpstreamPassword Secret
	// UpstreamPasswordFile is the file that Parse read UpstreamPassword from; empty: none.
	UpstreamPasswordFile string
	// UpstreamPasswordCommand is the program, with its arguments, whose output is the password;
	// empty: none. Parse does not run it.
	UpstreamPasswordCommand []string
	// UpstreamPasswordTTL is how long a password of the command is used.
	UpstreamPasswordTTL time.Duration
	// UpstreamTLS makes all connections to Redis with TLS, and SentinelTLS those to sentinels.
	UpstreamTLS, SentinelTLS bool
	// UpstreamTLSCA is the file of the authorities that sign Redis's certificates; empty: those
	// of the system.
	UpstreamTLSCA string
	// UpstreamTLSCert and UpstreamTLSKey are the files of Leash's certificate for Redis; empty:
	// none.
	UpstreamTLSCert, UpstreamTLSKey string
	// UpstreamTLSServerName is the name in the certificates of Redis; empty: the host of the
	// address.
	UpstreamTLSServerName string
	// SentinelTLSCA, SentinelTLSCert and SentinelTLSKey are the same files for sentinels; empty:
	// those for Redis.
	SentinelTLSCA, SentinelTLSCert, SentinelTLSKey string
	// SentinelTLSServerName is the name in the certificates of sentinels; empty: the host of the
	// address.
	SentinelTLSServerName string
	// ReadFrom is which node serves read-only commands: master, replica or nearest.
	ReadFrom string
	// TrustClients serves clients that have not authenticated with the upstream user's rights.
	TrustClients bool
	// MaxPinned is how many pinned connections to a Redis node there may be. 0: a number that
	// leaves some of the node's maxclients.
	MaxPinned int
	// WaitForUpstream is how long Leash waits at its start for a Redis that does not answer.
	// Forever: without a limit.
	WaitForUpstream time.Duration
	// RedirectTimeout is how long a command is repeated while the cluster can't serve its slot.
	RedirectTimeout time.Duration
	// UpstreamTimeout is how long a Redis may be silent before it counts as lost.
	UpstreamTimeout time.Duration

	// WatchdogTimeout is the TTL of a renewed lock in Redis.
	WatchdogTimeout time.Duration
	// OnDisconnect is what happens to the locks of a closed connection: auto, release or expire.
	OnDisconnect string
	// LockPublish is the kind of channel for wake-ups: both, sharded or plain.
	LockPublish string
	// TokenTTL is how long the counter of a lock's tokens stays after its last use; 0: for ever.
	TokenTTL time.Duration
	// MaxHold is how long a lock may be held; 0: without a limit.
	MaxHold time.Duration
	// FailoverGrace is the grace period: how long a new master grants no locks. 0: there is none.
	// Auto: as long as necessary.
	FailoverGrace time.Duration
	// MaxWaiters is how many commands may wait for locks at once.
	MaxWaiters int

	// Admin is the "host:port" of the HTTP port for metrics and health checks; empty: none. Without
	// a host, it is on this machine only (see AdminAddr).
	Admin string
	// AdminTLSCert and AdminTLSKey are the files of the certificate of the admin port, and of its
	// key; empty: it speaks plain HTTP.
	AdminTLSCert, AdminTLSKey string
	// AdminToken is what metrics, profiles and the console ask for, from AdminTokenFile; empty:
	// metrics ask for nothing, there are no profiles, and the console serves only this machine.
	AdminToken Secret
	// AdminTokenFile is the file that Parse read AdminToken from; empty: none.
	AdminTokenFile string
	// AdminWriteToken allows to break locks and to kill clients, from AdminWriteTokenFile; empty:
	// nobody may do that at the admin port.
	AdminWriteToken Secret
	// AdminWriteTokenFile is the file that Parse read AdminWriteToken from; empty: none.
	AdminWriteTokenFile string

	// File is the path of the file with settings; empty: there is none.
	File string
	// FileIsPublic says that File has a password and that every user of the machine can read it.
	FileIsPublic bool
	// CheckOnly asks for a check of the settings instead of a Leash.
	CheckOnly bool
	// Threads is how many threads run Go code at once (GOMAXPROCS).
	Threads int
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
	// AuditLog is the path of the audit log, or stderr. Empty: there is none.
	AuditLog string
	// SlowlogSlowerThan is from which time on LEASH SLOWLOG keeps a command. Never: none.
	SlowlogSlowerThan time.Duration
	// SlowlogMaxLen is how many commands LEASH SLOWLOG keeps.
	SlowlogMaxLen int
	// LogFormat is text or json.
	LogFormat string
}

// defaultThreads is half of the cores. It is not made of NumCPU: a container that may use two of a
// machine's 64 cores has two. It is determined before Leash limits itself to --threads.
var defaultThreads = max(1, runtime.GOMAXPROCS(0)/2)

// Default returns the default settings. They are valid.
func Default() Config {
	return Config{
		Listen:          []string{"127.0.0.1:6380"},
		MaxClients:      10000,
		MaxBulk:         512 * mib,
		MaxArgs:         1048576,
		MaxClientOutput: 256 * mib,
		PeerTimeout:     11 * time.Second,
		DrainTimeout:    10 * time.Second,

		LimitLogin: time.Minute,

		TLSClientAuth: "require",
		TLSUserFrom:   "none",

		UpstreamPasswordTTL: 10 * time.Minute,

		UpstreamMode:    "auto",
		ReadFrom:        "master",
		WaitForUpstream: Forever,
		RedirectTimeout: 2 * time.Second,
		UpstreamTimeout: 10 * time.Second,

		WatchdogTimeout: 30 * time.Second,
		OnDisconnect:    "auto",
		LockPublish:     "both",
		TokenTTL:        24 * time.Hour,
		MaxWaiters:      100000,

		SlowlogSlowerThan: 10 * time.Millisecond,
		SlowlogMaxLen:     128,

		Threads:   defaultThreads,
		LogLevel:  slog.LevelInfo,
		LogFormat: "text",
	}
}

// embeddedUpstream is the value of --upstream that is not an address.
const embeddedUpstream = "embedded"

// Embedded reports whether no Redis is named, so that Leash uses an embedded one.
func (c Config) Embedded() bool {
	return len(c.Upstream) == 0 || slices.Equal(c.Upstream, []string{embeddedUpstream})
}

// Secret is a text that is hidden when it is printed, logged or encoded. string(s) is the text
// itself.
type Secret string

// String returns "(hidden)", or "" when there is nothing to hide.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString is String, for %#v.
func (s Secret) GoString() string {
	return s.String()
}

// MarshalText is String, for encoders and for slog.
func (s Secret) MarshalText() ([]byte, error) {
	return []byte(s.String()), nil
}
