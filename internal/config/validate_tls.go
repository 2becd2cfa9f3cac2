package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// validateTLS checks the flags about TLS with clients.
func (c Config) validateTLS() error {
	var errs []error
	for i, addr := range c.TLSListen {
		host, port, err := net.SplitHostPort(addr)
		switch {
		case err != nil || strings.ContainsFunc(host, unfitForHost) || !validPort(port, 0):
			errs = append(errs, fmt.Errorf("--tls-listen %q is not an address: give host:port, [ipv6]:port or :port", addr))
		case port == "0":
		case slices.Contains(c.TLSListen[:i], addr):
			errs = append(errs, fmt.Errorf("--tls-listen %q is given twice: give it once", addr))
		case slices.Contains(c.Listen, addr):
			errs = append(errs, fmt.Errorf("--tls-listen %q and --listen are the same address: give each its own port", addr))
		}
	}
	switch served := len(c.TLSListen) > 0; {
	case served && (c.TLSCert == "" || c.TLSKey == ""):
		errs = append(errs, errors.New("--tls-listen needs a certificate: give --tls-cert and --tls-key"))
	case !served && (c.TLSCert != "" || c.TLSKey != "" || c.TLSClientCA != ""):
		errs = append(errs, errors.New("--tls-cert, --tls-key and --tls-client-ca are for --tls-listen: give it, or remove them"))
	}
	return errors.Join(append(errs, c.validateTLSUsers())...)
}

// validateTLSUsers checks the flags about users that certificates name.
func (c Config) validateTLSUsers() error {
	if err := word("tls-user-from", c.TLSUserFrom, userFroms); err != nil {
		return err
	}
	switch on := c.TLSUserFrom != "none"; {
	case !on && c.TLSUsersFile != "":
		return errors.New("--tls-users-file is for --tls-user-from: give it, or remove the file")
	case !on:
		return nil
	case c.TLSClientCA == "":
		return errors.New("--tls-user-from needs verified certificates: give --tls-client-ca")
	case c.TLSUsersFile == "":
		return errors.New("--tls-user-from needs the passwords of the users, because Redis demands one: give --tls-users-file")
	case c.TrustClients:
		return errors.New("--tls-user-from and --trust-clients contradict each other: a certificate without a user " +
			"would have the rights of Leash's own user, so remove one of them")
	case c.Embedded():
		return errors.New("--tls-user-from needs --upstream: the embedded Redis has no users")
	}
	return nil
}

// validateUpstreamTLS checks the flags about TLS with Redis and its sentinels.
func (c Config) validateUpstreamTLS() error {
	var errs []error
	secure := c.UpstreamTLS || c.SentinelTLS
	if secure && c.Embedded() {
		errs = append(errs, errors.New("--upstream-tls needs --upstream: the embedded Redis does not speak TLS"))
	}
	if c.SentinelTLS && c.SentinelMaster == "" {
		errs = append(errs, errors.New("--sentinel-tls is for sentinels: give --sentinel-master, or --upstream-tls for Redis itself"))
	}
	if (c.UpstreamTLSCert == "") != (c.UpstreamTLSKey == "") {
		errs = append(errs, errors.New("--upstream-tls-cert and --upstream-tls-key belong together: give both"))
	}
	if !secure && (c.UpstreamTLSCA != "" || c.UpstreamTLSCert != "" || c.UpstreamTLSServerName != "") {
		errs = append(errs, errors.New("--upstream-tls-ca, -cert and -server-name are for --upstream-tls: give it, or remove them"))
	}
	errs = append(errs, c.validateSentinelTLS(), noSpace("upstream-tls-server-name", c.UpstreamTLSServerName))
	return errors.Join(errs...)
}

// validateSentinelTLS checks the flags about the certificates of sentinels.
func (c Config) validateSentinelTLS() error {
	var errs []error
	if (c.SentinelTLSCert == "") != (c.SentinelTLSKey == "") {
		errs = append(errs, errors.New("--sentinel-tls-cert and --sentinel-tls-key belong together: give both"))
	}
	if !c.SentinelTLS && (c.SentinelTLSCA != "" || c.SentinelTLSCert != "" || c.SentinelTLSServerName != "") {
		errs = append(errs, errors.New("--sentinel-tls-ca, -cert and -server-name are for --sentinel-tls: give it, or remove them"))
	}
	return errors.Join(append(errs, noSpace("sentinel-tls-server-name", c.SentinelTLSServerName))...)
}
