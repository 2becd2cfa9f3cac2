package config

import "slices"

func clientOptions(c *Config) []option {
	return slices.Concat(listenOptions(c), sizeOptions(c), endOptions(c))
}

// listenOptions say where clients connect.
func listenOptions(c *Config) []option {
	return []option{
		{name: "listen", value: list("address", &c.Listen), first: true,
			summary: "Where clients connect: host:port, :port for every interface, or unix:/path.",
			details: []string{
				"Repeat the flag, or separate addresses by commas, to listen on more than one. " +
					"Port 0 is any free port. The path of a unix socket has at most 107 bytes.",
				"Leash asks clients for a password only if Redis does, or with `--require-auth`. " +
					"Do not expose the port to the internet.",
			}},
		{name: "announce", value: text("host:port", &c.Announce), first: true,
			summary: "Address that Leash gives to cluster clients as the address of every slot.",
			details: []string{
				"Leash shows itself as one node that owns every slot. " +
					"Set this flag when clients reach Leash by an address that is not its own: " +
					"through a load balancer, or through a forwarded port of a container.",
				"Leash does not resolve a host name. Clients get it as you write it.",
			},
			defaultIs: "the address that the client connected to"},
		{name: "proxy-protocol", value: boolean(&c.ProxyProtocol), first: true,
			summary: "Expect a header of the PROXY protocol from a load balancer on each TCP connection.",
			details: []string{
				"Leash reads versions 1 and 2 of the protocol. " +
					"It closes a connection that does not begin with such a header. " +
					"The flag applies to every host:port of `--listen`, but not to unix sockets.",
				"A client that reaches the port can claim any address. Let only load balancers reach it.",
				"The flag changes what `--on-disconnect auto` does.",
			}},
	}
}

// sizeOptions limit what clients send and get.
func sizeOptions(c *Config) []option {
	return []option{
		{name: "max-clients", value: count("n", &c.MaxClients), live: true,
			summary: "How many clients can be connected at once.",
			details: []string{
				"One client more gets the error that Redis gives, and is closed.",
				"Clients get at most three quarters of the files that Leash may open (`ulimit -n`). " +
					"The rest is for connections to Redis.",
			},
			limits: "1 to 1000000"},
		{name: "max-bulk", value: size("size", &c.MaxBulk), live: true,
			summary: "Largest argument of a command.",
			details: []string{
				"Leash closes a client that sends a larger one. " +
					"Redis has the same limit as `proto-max-bulk-len`. The smaller of the two counts.",
				"Leash reads Redis's limit when it starts. So restart Leash after you have lowered the limit. " +
					"Otherwise a larger argument also ends commands of other clients with `UPSTREAMLOST`.",
			},
			limits: "1MiB to 4GiB"},
		{name: "max-args", value: count("n", &c.MaxArgs), live: true,
			summary: "Largest number of arguments of a command.",
			details: []string{"Leash closes a client that sends more."},
			limits:  "1024 to 2147483647"},
		{name: "max-client-output", value: size("size", &c.MaxClientOutput), live: true,
			summary: "How many bytes of replies can wait for a client that has stopped reading.",
			details: []string{
				"Leash closes a client above this limit once it has read nothing for 10 s. " +
					"A client that reads slowly stays connected.",
			},
			limits: "1MiB or more"},
		{name: "max-memory", value: size("size", &c.MaxMemory),
			summary: "How much memory the process may use; 0 is no limit.",
			details: []string{
				"Above 80 % of it, Leash refuses new clients, and commands that need memory, with the error `OOM`. " +
					"Above all of it, Leash closes the clients for which it keeps the most bytes, holders of locks last. " +
					"[Access](access.md#memory) says more.",
				"It is also Go's `GOMEMLIMIT`, unless the environment sets that.",
			},
			limits: "0, or 64MiB or more"},
	}
}

// endOptions say when Leash ends the connections of clients.
func endOptions(c *Config) []option {
	return []option{
		{name: "peer-timeout", value: duration("duration", &c.PeerTimeout), live: true,
			summary: "How long a lock holder's host may be unreachable before Leash closes the connection.",
			details: []string{
				"The flag applies to clients that hold a lock or wait for one. " +
					"TCP keepalives check the host, so a client that is merely idle stays connected. " +
					"The client's locks then expire, unless `--on-disconnect` is `release`.",
				"Leash rounds to whole seconds. Other systems than Linux always use 11 s.",
			},
			limits: "4s to 10m"},
		{name: "drain-delay", value: duration("duration", &c.DrainDelay), live: true,
			summary: "How long Leash still takes new clients after SIGTERM.",
			details: []string{
				"`/readyz` of `--admin` answers 503 from the first moment. " +
					"So a load balancer can send new clients elsewhere before the port closes. " +
					"A second signal ends the process at once.",
			},
			limits: "0 to 10m"},
		{name: "maint-notifications", value: boolean(&c.MaintNotifications),
			summary: "Tell clients that ask for it to connect again when --drain-delay begins.",
			details: []string{
				"Without this flag, `CLIENT MAINT_NOTIFICATIONS` is refused. " +
					"Do not set it if clients take locks on connections of a pool: " +
					"[clients that move](operations.md#clients-that-move-by-themselves) says why.",
			}},
		{name: "drain-timeout", value: duration("duration", &c.DrainTimeout), live: true,
			summary: "How long a stop (SIGTERM) waits for clients that run commands or hold locks.",
			details: []string{
				"0 closes them at once. Leash does not wait for a command that blocks in Redis, such as `BLPOP`. " +
					"A stop takes up to 3 s longer than this time.",
			},
			limits: "0 to 1h"},
	}
}
