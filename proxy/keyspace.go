package proxy

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// keyspaceHandlers are the commands about many keys or all keys.
func keyspaceHandlers() handlers {
	return handlers{
		"DBSIZE":    everyMaster(merge.Sum),
		"KEYS":      (*session).allKeys,
		"FLUSHALL":  everyMaster(merge.First),
		"FLUSHDB":   everyMaster(merge.First),
		"RANDOMKEY": (*session).randomKey,
		"SCAN":      scanKeys,
	}
}

// everyMaster is the handler of a command about all keys or all nodes. m merges the masters'
// replies into one. A single Redis answers the command itself.
func everyMaster(m merge.Func) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		if !s.server.up.Topology().Cluster() {
			return s.router.RelayAny(cmd)
		}
		return s.router.Everywhere(cmd, m)
	}
}

// scanKeys runs SCAN, on a cluster over all masters.
func scanKeys(s *session, c *command.Command, cmd resp.Command) bool {
	if !s.server.up.Topology().Cluster() || !c.ArityOK(cmd.Args) || !s.router.Authenticated() {
		return s.router.RelayAny(cmd)
	}
	return s.server.scans.Scan(&s.router, cmd)
}
