package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// mayBeURL reports whether a text may have a password in it, as a URL has.
func mayBeURL(text string) bool { return strings.Contains(text, "@") }

// The errors about URLs do not repeat the URL, because it may contain a password.
var (
	errURL           = errors.New("--upstream has a URL that cannot be read: write rediss://user:password@host:port, with %2C for a comma")
	errURLDatabase   = errors.New("--upstream has a URL with a database: clients choose it by SELECT, so end the URL after the port")
	errURLOptions    = errors.New("--upstream has a URL with options: give flags instead")
	errURLTLS        = errors.New("--upstream has a URL with redis:// and asks for TLS elsewhere: write rediss:// in each URL, or host:port")
	errURLPassword   = errors.New("--upstream has a user or password that differs from another one: give them once")
	errURLOfSentinel = errors.New("--upstream has a URL, but names sentinels: give host:port, and --sentinel-tls for TLS")
)

// readURLs replaces the URLs of Upstream by host:port, and sets what else is in them.
func (c *Config) readURLs() error {
	if halfURL(c.Upstream) {
		return errURL
	}
	var plain, secure bool
	for i, addr := range c.Upstream {
		if !isURL(addr) {
			continue
		}
		u, err := url.Parse(addr)
		switch {
		case err != nil || u.Hostname() == "":
			return errURL
		case u.Path != "" && u.Path != "/" && u.Path != "/0":
			return errURLDatabase
		case u.RawQuery != "" || u.Fragment != "":
			return errURLOptions
		case c.SentinelMaster != "":
			return errURLOfSentinel
		}
		if u.Port() == "" {
			u.Host += ":6379"
		}
		c.Upstream[i] = u.Host
		plain, secure = plain || u.Scheme == "redis", secure || u.Scheme == "rediss"
		if err := c.setUser(u.User); err != nil {
			return err
		}
	}
	if c.UpstreamTLS = c.UpstreamTLS || secure; plain && c.UpstreamTLS {
		return errURLTLS
	}
	return nil
}

func isURL(addr string) bool {
	return strings.HasPrefix(addr, "redis://") || strings.HasPrefix(addr, "rediss://")
}

// halfURL reports whether a comma in a password has divided a URL. The first half may look like an
// address, and errors about addresses repeat them.
func halfURL(addrs []string) bool {
	return slices.ContainsFunc(addrs, isURL) &&
		slices.ContainsFunc(addrs, func(addr string) bool { return !isURL(addr) && mayBeURL(addr) })
}

// setUser sets the user and the password of a URL.
func (c *Config) setUser(user *url.Userinfo) error {
	password, _ := user.Password()
	name := user.Username()
	switch {
	case name != "" && c.UpstreamUser != "" && name != c.UpstreamUser,
		password != "" && c.UpstreamPassword != "" && Secret(password) != c.UpstreamPassword,
		password != "" && (c.UpstreamPasswordFile != "" || len(c.UpstreamPasswordCommand) > 0):
		return errURLPassword
	}
	if name != "" {
		c.UpstreamUser = name
	}
	if password != "" {
		c.UpstreamPassword = Secret(password)
	}
	return nil
}
