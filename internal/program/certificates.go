package program

import (
	"crypto/tls"
	"log/slog"

	"leash/internal/config"
	"leash/internal/tlsfiles"
)

// certificates are what Leash speaks TLS with. Those that are not used are nil.
type certificates struct {
	clients, redis, sentinels, admin *tlsfiles.Source

	users *tlsfiles.Users // of clients' certificates; nil: these name no users
}

// loadCertificates reads the files of certificates and keys.
func loadCertificates(cfg config.Config, log *slog.Logger) (c certificates, err error) {
	if len(cfg.TLSListen) > 0 {
		auth := tls.RequireAndVerifyClientCert
		if cfg.TLSClientAuth == "request" {
			auth = tls.VerifyClientCertIfGiven
		}
		files := tlsfiles.Files{Cert: cfg.TLSCert, Key: cfg.TLSKey, CA: cfg.TLSClientCA}
		c.clients, err = tlsfiles.Server(files, tlsfiles.Flags{Cert: "tls-cert", Key: "tls-key", CA: "tls-client-ca"}, auth, log)
		if err != nil {
			return c, err
		}
	}
	if cfg.TLSUserFrom != tlsfiles.UserFromNone {
		c.users, err = tlsfiles.NewUsers(cfg.TLSUsersFile, cfg.TLSUserFrom, log)
		if err != nil {
			return c, err
		}
	}
	if cfg.UpstreamTLS {
		files := tlsfiles.Files{Cert: cfg.UpstreamTLSCert, Key: cfg.UpstreamTLSKey, CA: cfg.UpstreamTLSCA}
		flags := tlsfiles.Flags{Cert: "upstream-tls-cert", Key: "upstream-tls-key", CA: "upstream-tls-ca"}
		c.redis, err = tlsfiles.Client(files, flags, cfg.UpstreamTLSServerName, log)
		if err != nil {
			return c, err
		}
	}
	if cfg.SentinelTLS {
		c.sentinels, err = loadForSentinels(cfg, log)
		if err != nil {
			return c, err
		}
	}
	if cfg.AdminTLSCert != "" {
		files := tlsfiles.Files{Cert: cfg.AdminTLSCert, Key: cfg.AdminTLSKey}
		c.admin, err = tlsfiles.Server(files, tlsfiles.Flags{Cert: "admin-tls-cert", Key: "admin-tls-key"}, tls.NoClientCert, log)
	}
	return c, err
}

// loadForSentinels reads the files for sentinels. Those that are not given are those for Redis.
func loadForSentinels(cfg config.Config, log *slog.Logger) (*tlsfiles.Source, error) {
	files := tlsfiles.Files{Cert: cfg.SentinelTLSCert, Key: cfg.SentinelTLSKey, CA: cfg.SentinelTLSCA}
	flags := tlsfiles.Flags{Cert: "sentinel-tls-cert", Key: "sentinel-tls-key", CA: "sentinel-tls-ca"}
	if files.Cert == "" {
		files.Cert, files.Key = cfg.UpstreamTLSCert, cfg.UpstreamTLSKey
		flags.Cert, flags.Key = "upstream-tls-cert", "upstream-tls-key"
	}
	if files.CA == "" {
		files.CA, flags.CA = cfg.UpstreamTLSCA, "upstream-tls-ca"
	}
	return tlsfiles.Client(files, flags, cfg.SentinelTLSServerName, log)
}

// all returns the certificates that exist.
func (c certificates) all() (sources []*tlsfiles.Source) {
	for _, s := range []*tlsfiles.Source{c.clients, c.redis, c.sentinels, c.admin} {
		if s != nil {
			sources = append(sources, s)
		}
	}
	return sources
}

// userOf returns what proxy.Config wants for its field of that name.
func (c certificates) userOf() func(tls.ConnectionState) (user, password string, ok bool) {
	if c.users == nil {
		return nil
	}
	return c.users.Of
}
