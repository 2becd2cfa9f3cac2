package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Validate reports everything that is wrong with the settings, one problem on each line: the flag's
// name, its value and what is allowed. It also checks relations between settings. It does no I/O.
func (c Config) Validate() error {
	return errors.Join(
		c.validateListen(),
		c.validateAnnounce(),
		c.validateProxyProtocol(),
		c.validateUpstream(),
		c.validateEmbedded(),
		c.validateCredentials(),
		c.validateSentinel(),
		c.validateLoop(),
		c.validateTLS(),
		c.validateAccess(),
		c.validateLimits(),
		c.validateUpstreamTLS(),
		c.validateAdmin(),

		within("max-clients", c.MaxClients, 1, 1000000, strconv.Itoa),
		within("max-bulk", c.MaxBulk, mib, 4*gib, formatSize),
		within("max-args", c.MaxArgs, 1024, math.MaxInt32, strconv.Itoa),
		within("max-client-output", c.MaxClientOutput, mib, math.MaxInt64, formatSize),
		c.validateMaxMemory(),
		// TCP keepalive uses whole seconds: one idle second, then three probes.
		within("peer-timeout", c.PeerTimeout, 4*time.Second, 10*time.Minute, formatDuration),
		within("drain-delay", c.DrainDelay, 0, 10*time.Minute, formatDuration),
		within("drain-timeout", c.DrainTimeout, 0, time.Hour, formatDuration),

		word("upstream-mode", c.UpstreamMode, upstreamModes),
		word("read-from", c.ReadFrom, readFroms),
		c.validateReadFrom(),
		within("max-pinned", c.MaxPinned, 0, 1000000, strconv.Itoa),
		within("wait-for-upstream", c.WaitForUpstream, Forever, 24*time.Hour, formatDuration),
		within("upstream-password-ttl", c.UpstreamPasswordTTL, time.Second, 24*time.Hour, formatDuration),
		within("redirect-timeout", c.RedirectTimeout, 0, time.Minute, formatDuration),
		// Leash checks a node once a second, so a silence under 2 s means nothing.
		within("upstream-timeout", c.UpstreamTimeout, 2*time.Second, 10*time.Minute, formatDuration),

		within("watchdog-timeout", c.WatchdogTimeout, time.Second, 24*time.Hour, formatDuration),
		word("on-disconnect", c.OnDisconnect, onDisconnects),
		word("lock-publish", c.LockPublish, lockPublishes),
		c.validateTokenTTL(),
		c.validateMaxHold(),
		c.validateFailoverGrace(),
		within("max-waiters", c.MaxWaiters, 1, 1000000, strconv.Itoa),

		within("slowlog-slower-than", c.SlowlogSlowerThan, Never, time.Hour, formatDuration),
		within("slowlog-max-len", c.SlowlogMaxLen, 1, 100000, strconv.Itoa),
		within("threads", c.Threads, 1, 1024, strconv.Itoa),
		word("tls-client-auth", c.TLSClientAuth, clientAuths),
		word("log-format", c.LogFormat, logFormats),
	)
}

// within checks least ≤ v ≤ most.
func within[T cmp.Ordered](flag string, v, least, most T, format func(T) string) error {
	switch {
	case v < least:
		return fmt.Errorf("--%s %s is too small: give %s or more", flag, format(v), format(least))
	case v > most:
		return fmt.Errorf("--%s %s is too large: give %s or less", flag, format(v), format(most))
	}
	return nil
}

func word(flag, v string, words []string) error {
	if err := oneOf(v, words); err != nil {
		return fmt.Errorf("--%s %q %w", flag, v, err)
	}
	return nil
}

func (c Config) validateMaxMemory() error {
	if c.MaxMemory == 0 {
		return nil
	}
	return within("max-memory", c.MaxMemory, 64*mib, math.MaxInt64, formatSize)
}

// validateTokenTTL: the token counter must last longer than the locks that it numbers.
func (c Config) validateTokenTTL() error {
	if c.TokenTTL == 0 || c.TokenTTL >= c.WatchdogTimeout {
		return nil
	}
	return fmt.Errorf("--token-ttl %s is shorter than --watchdog-timeout %s: give that much or more, or 0 for no limit",
		formatDuration(c.TokenTTL), formatDuration(c.WatchdogTimeout))
}

func (c Config) validateMaxHold() error {
	if c.MaxHold == 0 {
		return nil
	}
	return within("max-hold", c.MaxHold, 100*time.Millisecond, 365*24*time.Hour, formatDuration)
}

// validateFailoverGrace: a lease must end within the grace period.
func (c Config) validateFailoverGrace() error {
	switch {
	case c.FailoverGrace == 0:
		return nil
	case c.Embedded():
		return errors.New("--failover-grace needs --upstream: the embedded Redis has no failover")
	case c.FailoverGrace == Auto:
		return nil
	case c.FailoverGrace < c.WatchdogTimeout:
		return fmt.Errorf("--failover-grace %s is shorter than --watchdog-timeout %s: give auto, or more than that",
			formatDuration(c.FailoverGrace), formatDuration(c.WatchdogTimeout))
	}
	return within("failover-grace", c.FailoverGrace, 0, 48*time.Hour, formatDuration)
}

func unfitForHost(r rune) bool { return r <= ' ' || r == ',' || r == '@' || r == '/' || r > '~' }

func validPort(s string, least int) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && int(n) >= least
}

func (c Config) validateUpstream() error {
	var errs []error
	for i, addr := range c.Upstream {
		if slices.Contains(c.Upstream[:i], addr) {
			errs = append(errs, fmt.Errorf("--upstream names %q twice: name it once", addr))
			continue
		}
		if !c.Embedded() {
			errs = append(errs, validateUpstreamAddr(addr))
		}
	}
	switch {
	case c.Embedded() && c.UpstreamMode == "cluster":
		errs = append(errs, errors.New("--upstream-mode cluster needs --upstream: name a node of the cluster"))
	case len(c.Upstream) > 1 && c.UpstreamMode == "standalone":
		errs = append(errs, fmt.Errorf("--upstream-mode standalone is one Redis, but --upstream names %d: name one", len(c.Upstream)))
	}
	return errors.Join(errs...)
}

// validateEmbedded: the locks of an embedded Redis exist only in one process. If other machines can
// connect, the settings probably lack a Redis. With two such processes, a lock would have two
// holders.
func (c Config) validateEmbedded() error {
	if len(c.Upstream) > 0 || c.validateListen() != nil {
		return nil
	}
	for _, addr := range slices.Concat(c.Listen, c.TLSListen) {
		if !isLocal(addr) {
			return fmt.Errorf("--upstream names no Redis, but --listen %q serves other machines: name the Redis, "+
				"or give --upstream embedded to try Leash with locks in this process only", addr)
		}
	}
	return nil
}

// isLocal reports whether only processes of this machine can connect to a --listen address.
func isLocal(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func validateUpstreamAddr(addr string) error {
	if addr == embeddedUpstream {
		return errors.New("--upstream embedded cannot be combined with an address: give one or the other")
	}
	if strings.ContainsAny(addr, "@/") {
		// The text is not repeated, because a URL may contain a password.
		return errors.New("--upstream has an address that is neither host:port nor a URL: write rediss://user:password@host:port")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsFunc(host, unfitForHost) || !validPort(port, 1) {
		return fmt.Errorf("--upstream %q is not an address: give host:port or [ipv6]:port", addr)
	}
	return nil
}

func (c Config) validateCredentials() error {
	errs := []error{
		noSpace("upstream-user", c.UpstreamUser), noSpace("sentinel-user", c.SentinelUser), noSpace("sentinel-master", c.SentinelMaster),
	}
	if c.UpstreamUser != "" && !c.hasPassword() {
		errs = append(errs, errors.New("--upstream-user needs a password: give --upstream-password-file, or LEASH_UPSTREAM_PASSWORD"))
	}
	if c.hasPassword() && c.Embedded() {
		errs = append(errs, errors.New("--upstream-password needs --upstream: the embedded Redis has no password"))
	}
	if c.TrustClients && !c.hasPassword() {
		errs = append(errs, errors.New("--trust-clients gives clients the rights of the upstream user: give that user's password, or remove the flag"))
	}
	return errors.Join(errs...)
}

// noSpace checks a name in which Redis or its sentinels allow no white space.
func noSpace(flag, name string) error {
	if strings.ContainsFunc(name, unicode.IsSpace) {
		return fmt.Errorf("--%s %q has white space in it: give the name alone", flag, name)
	}
	return nil
}

func (c Config) validateSentinel() error {
	var errs []error
	switch {
	case c.UpstreamMode == "sentinel" && c.SentinelMaster == "":
		errs = append(errs, errors.New("--upstream-mode sentinel needs --sentinel-master: give the master's name at the sentinels"))
	case c.SentinelMaster != "" && c.UpstreamMode != "sentinel" && c.UpstreamMode != "auto":
		errs = append(errs, fmt.Errorf("--sentinel-master needs sentinels, but --upstream-mode is %s: give sentinel or auto, or remove the name", c.UpstreamMode))
	case c.SentinelMaster != "" && c.Embedded():
		errs = append(errs, errors.New("--sentinel-master needs --upstream: give the sentinels' host:port"))
	}
	if c.SentinelUser != "" && c.SentinelPassword == "" {
		errs = append(errs, errors.New("--sentinel-user needs a password: give --sentinel-password-file, or LEASH_SENTINEL_PASSWORD"))
	}
	if c.SentinelPassword != "" && c.SentinelMaster == "" {
		errs = append(errs, errors.New("--sentinel-password is for sentinels: give --sentinel-master, or --upstream-password for Redis itself"))
	}
	return errors.Join(errs...)
}

func (c Config) validateReadFrom() error {
	if c.Embedded() && (c.ReadFrom == "replica" || c.ReadFrom == "nearest") {
		return fmt.Errorf("--read-from %s needs --upstream: the embedded Redis has no replicas", c.ReadFrom)
	}
	return nil
}

// validateLoop refuses a Leash that would be its own upstream.
func (c Config) validateLoop() error {
	for _, listen := range slices.Concat(c.Listen, c.TLSListen) {
		for _, upstream := range c.Upstream {
			if sameServer(listen, upstream) {
				return fmt.Errorf("--upstream %q and --listen %q are the same address: give the address of Redis, or listen elsewhere", upstream, listen)
			}
		}
	}
	return nil
}

// sameServer reports whether a connection to upstream certainly reaches listen.
func sameServer(listen, upstream string) bool {
	listenHost, listenPort, err1 := net.SplitHostPort(listen)
	upstreamHost, upstreamPort, err2 := net.SplitHostPort(upstream)
	if err1 != nil || err2 != nil || listenPort != upstreamPort {
		return false
	}
	ip := hostIP(upstreamHost)
	if listenHost == "" {
		return ip.IsLoopback()
	}
	at := hostIP(listenHost)
	return at != nil && (at.Equal(ip) || at.IsUnspecified() && ip.IsLoopback())
}

// hostIP is the IP address of a host that is written as a number or as localhost. It is nil for any
// other host.
func hostIP(host string) net.IP {
	if host == "localhost" {
		return net.IPv4(127, 0, 0, 1)
	}
	return net.ParseIP(host)
}
