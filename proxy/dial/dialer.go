package dial

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how to connect. It is not changed after New.
type Config struct {
	// SentinelUser and SentinelPassword authenticate Leash with the sentinels. If both are empty,
	// it does not authenticate.
	SentinelUser, SentinelPassword string
	// ReadSentinelPassword is ReadPassword for the sentinels. It is called for each new connection
	// to one.
	ReadSentinelPassword func(refused string) (string, error)

	// User and Password are for topology, scripts and liveness. Clients use them only if their Lane
	// says so.
	User, Password string
	// ReadPassword returns the password of User as it is now; nil: Password stays. It is called
	// before each AUTH of User, also concurrently. refused is a password that Redis has just
	// refused, or empty. It must not block for longer than a second. Password is its first result.
	ReadPassword func(refused string) (string, error)

	// Reread makes Leash read the password at once when it gets a value; it may be nil.
	Reread <-chan os.Signal

	// TLS and SentinelTLS return the TLS settings of the next connection to Redis and to a
	// sentinel; nil: without TLS.
	TLS, SentinelTLS func() *tls.Config

	// how long a call may search for its node; if zero, 2 s; if negative, it does not search
	RedirectTimeout time.Duration
	UpstreamTimeout time.Duration // silence after which a node is lost; if zero, 10 s
}

// Dialer opens connections to Redis and to sentinels.
type Dialer struct {
	cfg            Config
	log            *slog.Logger
	asksRole       bool // before a connection is used, its server must say that it is a master
	onAuthRequired func()

	passwords        sync.Map // []byte by user: what Redis accepted last, for later dials
	own              ownPassword
	sentinelPassword ownPassword // only the newest password, and whether its last reading failed
	wasOpen          atomic.Bool // the last connection without authentication was accepted
	authRequired     atomic.Bool // the last connection without authentication was refused
	loginsRefused    atomic.Int64
}

// New returns a Dialer. It does no I/O. asksRole is for masters that sentinels name: every
// connection to a master then asks for the role of its server first. onAuthRequired is called when
// Redis begins to require that clients authenticate. It must not block.
func New(cfg Config, asksRole bool, onAuthRequired func(), log *slog.Logger) *Dialer {
	if cfg.RedirectTimeout == 0 {
		cfg.RedirectTimeout = 2 * time.Second
	}
	if cfg.UpstreamTimeout == 0 {
		cfg.UpstreamTimeout = 10 * time.Second
	}
	d := &Dialer{cfg: cfg, log: log, asksRole: asksRole, onAuthRequired: onAuthRequired}
	d.own.refused = make(chan string, 1)
	d.sentinelPassword.set(cfg.SentinelPassword)
	if cfg.User != "" || cfg.Password != "" {
		d.setPassword(d.ServiceUser(), []byte(cfg.Password))
		d.own.set(cfg.Password)
	}
	return d
}

// AuthRequired reports whether Redis requires a new connection to authenticate.
func (d *Dialer) AuthRequired() bool { return d.authRequired.Load() }

// LoginsRefused counts the logins of Leash's own user whose password Redis refused.
func (d *Dialer) LoginsRefused() int64 { return d.loginsRefused.Load() }

// RedirectTimeout is how long a call may search for its node.
func (d *Dialer) RedirectTimeout() time.Duration { return d.cfg.RedirectTimeout }

// Timeout is the silence after which a node is lost.
func (d *Dialer) Timeout() time.Duration { return d.cfg.UpstreamTimeout }

// Forget drops the credential of a user who has no session any more. That of Leash's own user
// stays.
func (d *Dialer) Forget(user string) {
	if user != d.ServiceUser() {
		d.passwords.Delete(user)
	}
}

// setPassword notes a password that Redis has accepted. It may be empty.
func (d *Dialer) setPassword(user string, password []byte) {
	d.passwords.Store(user, append([]byte{}, password...))
}

// passwordOf returns the password that Redis accepted last for a user, or nil.
func (d *Dialer) passwordOf(user string) []byte {
	password, _ := d.passwords.Load(user)
	text, _ := password.([]byte)
	return text
}
