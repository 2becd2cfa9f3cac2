package masters

import (
	"slices"
	"strings"

	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// ownParameters are the parameters that clients may not set. They concern a server's address, its
// place in the cluster, or its connections. Those connections are Leash's, and a tighter limit
// would close links that all clients share. A name that ends in "-" is a prefix.
var ownParameters = []string{
	"bind", "bind-source-addr", "port", "tls-port", "unixsocket", "cluster-port", "cluster-config-file",
	"cluster-announce-", "replica-announce-", "slave-announce-",
	"maxclients", "maxmemory-clients", "timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit",
	"client-output-buffer-limit",
}

// configSet sets parameters on every master. It refuses the whole command if one of them is in
// ownParameters.
func configSet(r *route.Router, c *command.Command, cmd resp.Command) bool {
	switch reason := configRefusal(cmd.Args); {
	case !r.Ready(c, cmd):
		return true
	case reason != "":
		return r.Fail(reason)
	}
	return r.Everywhere(cmd, merge.First)
}

func configRefusal(args [][]byte) string {
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(command.Quoted(args[i], command.MaxQuoted)))
		if slices.ContainsFunc(ownParameters, func(own string) bool {
			return name == own || strings.HasSuffix(own, "-") && strings.HasPrefix(name, own)
		}) {
			return "ERR CONFIG SET of '" + name +
				"' is refused by leash: it changes the addresses or connections of the servers behind Leash"
		}
	}
	return ""
}
