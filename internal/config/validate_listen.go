package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

func (c Config) validateListen() error {
	if len(c.Listen) == 0 {
		return errors.New("--listen is empty: give host:port or unix:/path")
	}
	var errs []error
	for i, addr := range c.Listen {
		if slices.Contains(c.Listen[:i], addr) && !strings.HasSuffix(addr, ":0") {
			errs = append(errs, fmt.Errorf("--listen %q is given twice: give it once", addr))
			continue
		}
		errs = append(errs, validateListenAddr(addr))
	}
	return errors.Join(errs...)
}

func validateListenAddr(addr string) error {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		switch {
		case path == "":
			return fmt.Errorf("--listen %q has no path: give unix:/path", addr)
		case len(path) > maxUnixPath:
			return fmt.Errorf("--listen %q has a path longer than %d bytes: give a shorter one", addr, maxUnixPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.ContainsFunc(host, unfitForHost) || !validPort(port, 0) {
		return fmt.Errorf("--listen %q is not an address: give host:port, [ipv6]:port, :port or unix:/path", addr)
	}
	return nil
}

// validateAnnounce: clients must be able to connect to the address. It is in a reply whose fields
// are separated by spaces.
func (c Config) validateAnnounce() error {
	if c.Announce == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Announce)
	if err != nil || host == "" || strings.ContainsFunc(host, unfitForHost) || !validPort(port, 1) {
		return fmt.Errorf("--announce %q is not an address: give host:port or [ipv6]:port", c.Announce)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("--announce %q is not an address that clients can connect to: give the one they use", c.Announce)
	}
	return nil
}

func (c Config) validateProxyProtocol() error {
	isTCP := func(addr string) bool { return !strings.HasPrefix(addr, "unix:") }
	if !c.ProxyProtocol || len(c.TLSListen) > 0 || slices.ContainsFunc(c.Listen, isTCP) {
		return nil
	}
	return errors.New("--proxy-protocol is for TCP, but --listen has unix sockets only: give a host:port, or remove the flag")
}

// maxUnixPath is the maximal length of a unix socket's path on Linux, without the final NUL.
const maxUnixPath = 107
