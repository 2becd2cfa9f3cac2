package proxy

import (
	"net"

	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// StallTimeout is how long a client may read nothing while output waits for it.
const StallTimeout = stallTimeout

// WithoutAuth has the commands for which a client needs no authentication.
var WithoutAuth = withoutAuth

// CheckPermissions returns the error of Config.Deny or Config.AllowAdmin.
func CheckPermissions(cfg *Config, table command.Table) error {
	_, err := permissionsOf(cfg, table)
	return err
}

// Commands is the server's command table.
func (s *Server) Commands() command.Table { return s.commands }

// MergeBy lets a command go to every master. Its reply is merged by m.
func (s *Server) MergeBy(m merge.Func, name string) {
	s.handlers[s.commands[name].Index] = func(s *session, _ *command.Command, cmd resp.Command) bool {
		return s.router.Everywhere(cmd, m)
	}
}

// Sockets are the connections of the clients.
func (s *Server) Sockets() (sockets []net.Conn) {
	for _, one := range s.all() {
		sockets = append(sockets, one.conn.Conn)
	}
	return sockets
}
