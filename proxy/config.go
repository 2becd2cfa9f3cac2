package proxy

import (
	"crypto/tls"
	"time"

	"leash/internal/limits"
	"leash/internal/tlsfiles"
	"leash/proxy/operators"
	"leash/proxy/subscribers"
)

// Config configures a Server. It is not changed after New; Server.Settings has the present values
// of its Settings.
type Config struct {
	Settings

	ProxyProtocol  bool          // TCP connections begin with the PROXY protocol header of a balancer
	HeaderTimeout  time.Duration // how long to wait for that header and a TLS handshake; if zero, 10 s
	TrustClients   bool          // clients start as the upstream user
	RequireAuth    bool          // clients must authenticate, also if Redis serves them without
	ProtectedMode  bool          // refuse clients of other machines that need no password
	Deny           []string      // commands that nobody may run, as Table.Select takes them
	AllowAdmin     []string      // users who may run commands of category @admin; empty: all may
	UserLimits     limits.Limits // of each user; zero: none
	MaxMemory      int64         // bytes that the process may use; if zero, without a limit
	AddressClients int           // connections of one address; if zero, as many as MaxClients
	AcceptRate     int           // new connections a second; if zero, without a limit
	LoginTime      time.Duration // how long a client may take to authenticate; if zero, for ever
	IdleTime       time.Duration // how long a client may be idle; if zero, for ever
	Version        string        // Leash's version, for INFO
	// host:port that Leash shows to cluster clients; if empty, the address that they connected to
	Announce string
	// UserOf returns the ACL user whom a client's certificate names, and the password for Redis. It
	// does not block. nil: certificates name no users.
	UserOf func(tls.ConnectionState) (user, password string, ok bool)
	// Certificates are those that INFO tells about.
	Certificates []*tlsfiles.Source
	Process      operators.ProcessSettings // for LEASH CONFIG
	// SubscriberLimits limit the output of subscriptions that waits; if zero, to Redis's limits.
	SubscriberLimits subscribers.Limits
	// MaintNotifications lets clients ask to be told of a stop; without it, that is refused.
	MaintNotifications bool
	// Stop makes Serve's ctx end, for LEASH DRAIN. It does not block. nil: the command is refused.
	Stop func()
}

// Settings are the part of a Config that may change while the server runs.
type Settings struct {
	MaxClients int // if zero, 10,000
	// bytes of one argument; if zero, 512 MiB; never above Redis's own limit
	MaxBulk int64
	MaxArgs int // arguments of one command; if zero, 1,048,576
	// bytes of output that may wait for a client that does not read; if zero, 256 MiB
	MaxClientOutput int64
	PeerTimeout     time.Duration // silence after which a peer with locks is dead; if zero, 11 s
	DrainTimeout    time.Duration // how long a stop waits for holders; if zero, not at all
	OnDisconnect    string        // auto (also if empty), release or expire: rule R28
	SlowerThan      time.Duration // from which time on LEASH SLOWLOG keeps a command; if zero, 10 ms; negative: never
	SlowLength      int           // how many commands it keeps; if zero, 128
}

func (c Config) withDefaults() Config {
	c.Settings = c.Settings.withDefaults()
	setDefault(&c.HeaderTimeout, 10*time.Second)
	setDefault(&c.SubscriberLimits, subscribers.DefaultLimits)
	return c
}

func (s Settings) withDefaults() Settings {
	setDefault(&s.MaxClients, 10000)
	setDefault(&s.MaxBulk, 512<<20)
	setDefault(&s.MaxArgs, 1<<20)
	setDefault(&s.MaxClientOutput, 256<<20)
	setDefault(&s.PeerTimeout, 11*time.Second)
	setDefault(&s.SlowerThan, 10*time.Millisecond)
	setDefault(&s.SlowLength, 128)
	return s
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Settings returns the present values of what Change replaces. Safe for concurrent use.
func (s *Server) Settings() Settings { return *s.settings.Load() }

// Change replaces the settings, with their defaults where they are zero. MaxBulk and MaxArgs are
// for new clients, and the rest is for all. No client is closed because there are more than
// MaxClients. Safe for concurrent use.
func (s *Server) Change(to Settings) {
	to = to.withDefaults()
	s.settings.Store(&to)
	s.relaying.Slow.Set(to.SlowerThan, to.SlowLength)
}
