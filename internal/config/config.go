// Package config holds Leash's settings: what they are, what they may be, and how they are given.
//
// Each setting is a flag (--max-clients) and an environment variable (LEASH_MAX_CLIENTS); the flag
// beats the variable, the variable beats the default. [Parse] reads both and returns a [Config]
// that has passed [Config.Validate], or an error that says which flag is wrong and what would be
// right.
//
// A Config is a plain value: nothing in it changes after Parse, and copies may be used
// concurrently. The package knows nothing of what is done with the values, and does no I/O but
// reading the password file.
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
	// Announce is "host:port" that cluster clients are told; empty: where they connected.
	Announce string
	// ProxyProtocol makes TCP connections begin with a header of the PROXY protocol, from a
	// balancer.
	ProxyProtocol bool
	// MaxClients is how many client connections are served at once.
	MaxClients int
	// MaxBulk is the largest argument of a command in bytes.
	MaxBulk int64
	// MaxArgs is the largest number of arguments of a command.
	MaxArgs int
	// MaxClientOutput is how many bytes of replies a client that has stopped reading may leave
	// behind.
	MaxClientOutput int64
	// PeerTimeout is how long the host of a client with holds or waiters may be silent.
	PeerTimeout time.Duration
	// DrainTimeout is how long a stop waits for clients.
	DrainTimeout time.Duration

	// Upstream is "host:port" of the Redis, or of some nodes of the cluster; empty, or "embedded"
	// alone: an embedded one.
	Upstream []string
	// UpstreamMode is auto, cluster, standalone or sentinel.
	UpstreamMode string
	// SentinelMaster is how the sentinels that Upstream then names call the master; empty: Upstream
	// is Redis itself.
	SentinelMaster string
	// SentinelUser and SentinelPassword are for the sentinels; empty: they want none.
	SentinelUser     string
	SentinelPassword Secret
	// UpstreamUser is the ACL user of Leash's own connections; empty: the default user.
	UpstreamUser string
	// UpstreamPassword is that user's password, also when it came from UpstreamPasswordFile; empty:
	// none.
	UpstreamPassword Secret
	// UpstreamPasswordFile is the file that Parse read UpstreamPassword from; empty: none.
	UpstreamPasswordFile string
	// ReadFrom is where commands that only read are served: master, replica or nearest.
	ReadFrom string
	// TrustClients serves clients that have not authenticated with the upstream user's rights.
	TrustClients bool
	// MaxPinned is how many connections to a Redis node clients may have to themselves; 0: what
	// leaves some of its maxclients.
	MaxPinned int
	// WaitForUpstream is how long Leash waits at its start for a Redis that does not answer;
	// Forever: without end.
	WaitForUpstream time.Duration
	// RedirectTimeout is how long a command is repeated while the cluster can't serve its slot.
	RedirectTimeout time.Duration
	// UpstreamTimeout is how long a Redis may be silent before it counts as lost.
	UpstreamTimeout time.Duration

	// WatchdogTimeout is the time to live of a renewed lock in Redis.
	WatchdogTimeout time.Duration
	// OnDisconnect is what becomes of a connection's locks: auto, release or expire.
	OnDisconnect string
	// LockPublish is the kind of channel for wake-ups: both, sharded or plain.
	LockPublish string
	// TokenTTL is how long the counter of a lock's tokens stays after its last use; 0: for ever.
	TokenTTL time.Duration
	// MaxHold is for how long any lock may be held; 0: for as long as one likes.
	MaxHold time.Duration
	// FailoverGrace is for how long no locks are granted on a new master; 0: it makes no
	// difference. Auto: as long as it must be.
	FailoverGrace time.Duration
	// MaxWaiters is how many commands may wait for locks at once.
	MaxWaiters int

	// Threads is how many threads run Go code at once (GOMAXPROCS).
	Threads int
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
	// LogFormat is text or json.
	LogFormat string
}

// Default returns the settings of a Leash that was told nothing. They are valid.
func Default() Config {
	return Config{
		Listen:          []string{"127.0.0.1:6380"},
		MaxClients:      10000,
		MaxBulk:         512 * mib,
		MaxArgs:         1048576,
		MaxClientOutput: 256 * mib,
		PeerTimeout:     11 * time.Second,
		DrainTimeout:    10 * time.Second,

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

		// Not NumCPU: a container that may use two of a machine's 64 cores has two.
		Threads:   max(1, runtime.GOMAXPROCS(0)/2),
		LogLevel:  slog.LevelInfo,
		LogFormat: "text",
	}
}

// embeddedUpstream is the upstream that is no address.
const embeddedUpstream = "embedded"

// Embedded reports whether no Redis is named, so that an embedded one serves.
func (c Config) Embedded() bool {
	return len(c.Upstream) == 0 || slices.Equal(c.Upstream, []string{embeddedUpstream})
}

// Secret is a text that does not show when it is printed, logged or encoded. string(s) is the text
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
