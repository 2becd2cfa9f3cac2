package config

func tlsOptions(c *Config) []option {
	return append(clientTLSOptions(c), upstreamTLSOptions(c)...)
}

func clientTLSOptions(c *Config) []option {
	return append(serverTLSOptions(c), clientCertificateOptions(c)...)
}

func serverTLSOptions(c *Config) []option {
	return []option{
		{name: "tls-listen", value: list("address", &c.TLSListen),
			summary: "Where clients connect with TLS: host:port, or :port for every interface.",
			details: []string{
				"The ports of `--listen` stay, without TLS. By default that is a port on this machine only. " +
					"Repeat the flag, or separate addresses by commas, to listen on more than one.",
				"Leash speaks TLS 1.2 and 1.3. A handshake must end within 10 s. " +
					"With `--proxy-protocol`, the header comes before the handshake.",
			},
			defaultIs: "none",
			limits:    "needs `--tls-cert` and `--tls-key`"},
		{name: "tls-cert", value: text("path", &c.TLSCert),
			summary: "File with Leash's certificate for clients and the chain behind it, in PEM.",
			details: []string{
				"Leash reads it again within 5 s of a change, and on SIGHUP. Connections stay. " +
					"If the new pair cannot be used, Leash keeps the old one and logs the reason.",
			},
			defaultIs: "none"},
		{name: "tls-key", value: text("path", &c.TLSKey),
			summary:   "File with the key of --tls-cert, in PEM.",
			defaultIs: "none"},
	}
}

func clientCertificateOptions(c *Config) []option {
	return []option{
		{name: "tls-client-ca", value: text("path", &c.TLSClientCA),
			summary: "File with the authorities that sign the certificates of clients, in PEM.",
			details: []string{
				"With the flag, a client shows a certificate. Its user and its rights do not change, except with " +
					"`--tls-user-from`: it still sends `AUTH` if Redis wants a password.",
			},
			defaultIs: "none: clients need no certificate"},
		{name: "tls-client-auth", value: choice(&c.TLSClientAuth, clientAuths...),
			summary: "Whether a client must show a certificate, with --tls-client-ca.",
			details: []string{"`request` also serves clients that show none. A certificate that is shown must be valid."}},
		{name: "tls-user-from", value: choice(&c.TLSUserFrom, userFroms...),
			summary: "Which name of a client's certificate is its ACL user, who then needs no AUTH.",
			details: []string{
				"`cn` is the common name, and `san-uri` the first URI among the alternative names that is a user. " +
					"Redis demands a password for each user, and Leash takes it from `--tls-users-file`.",
				"A client starts as usual if it shows no certificate, or if the file has none of its names. " +
					"Leash refuses the connection if Redis does not accept the user.",
			},
			limits: "needs `--tls-users-file`; not with `--trust-clients`"},
		{name: "tls-users-file", value: text("path", &c.TLSUsersFile),
			summary: "File with the users that certificates name, and their passwords in Redis.",
			details: []string{
				"Each line is a user, a space and the user's password. Lines that begin with `#` mean nothing. " +
					"Leash reads the file again within 5 s of a change, and on SIGHUP.",
			},
			defaultIs: "none",
			limits:    "needs `--tls-user-from`"},
	}
}

func upstreamTLSOptions(c *Config) []option {
	return []option{
		{name: "upstream-tls", value: boolean(&c.UpstreamTLS),
			summary: "Connect to Redis with TLS.",
			details: []string{
				"The flag applies to every connection to Redis: to all nodes of a cluster, and to replicas. " +
					"The certificate of each node must have the host of the node's address. " +
					"For a node of a cluster, that is the host in the reply to `CLUSTER SLOTS`.",
			}},
		{name: "upstream-tls-ca", value: text("path", &c.UpstreamTLSCA),
			summary:   "File with the authorities that sign the certificates of Redis, in PEM.",
			details:   []string{"Leash reads it again within 5 s of a change, and on SIGHUP."},
			defaultIs: "the authorities of the system"},
		{name: "upstream-tls-cert", value: text("path", &c.UpstreamTLSCert),
			summary:   "File with the certificate that Leash shows to Redis, in PEM.",
			details:   []string{"Redis asks for one unless it has `tls-auth-clients no`. Leash reads it again as `--tls-cert`."},
			defaultIs: "none"},
		{name: "upstream-tls-key", value: text("path", &c.UpstreamTLSKey),
			summary:   "File with the key of --upstream-tls-cert, in PEM.",
			defaultIs: "none"},
		{name: "upstream-tls-server-name", value: text("name", &c.UpstreamTLSServerName),
			summary: "Name that the certificates of all nodes of Redis have.",
			details: []string{
				"Set it when the certificates do not have the hosts that Leash connects to, for example IP addresses.",
			},
			defaultIs: "the host of the node's address",
			limits:    "no spaces"},
		{name: "sentinel-tls", value: boolean(&c.SentinelTLS),
			summary: "Connect to the sentinels with TLS.",
			limits:  "needs `--sentinel-master`"},
		{name: "sentinel-tls-ca", value: text("path", &c.SentinelTLSCA),
			summary:   "File with the authorities that sign the certificates of the sentinels, in PEM.",
			details:   []string{"Leash reads it again as `--upstream-tls-ca`."},
			defaultIs: "`--upstream-tls-ca`",
			limits:    "needs `--sentinel-tls`"},
		{name: "sentinel-tls-cert", value: text("path", &c.SentinelTLSCert),
			summary:   "File with the certificate that Leash shows to the sentinels, in PEM.",
			details:   []string{"Leash reads it again as `--tls-cert`."},
			defaultIs: "`--upstream-tls-cert`",
			limits:    "needs `--sentinel-tls`"},
		{name: "sentinel-tls-key", value: text("path", &c.SentinelTLSKey),
			summary:   "File with the key of --sentinel-tls-cert, in PEM.",
			defaultIs: "`--upstream-tls-key`"},
		{name: "sentinel-tls-server-name", value: text("name", &c.SentinelTLSServerName),
			summary:   "Name that the certificates of all sentinels have.",
			defaultIs: "the host of the sentinel's address",
			limits:    "no spaces"},
	}
}
