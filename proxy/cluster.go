package proxy

import (
	"leash/proxy/client"
	"leash/proxy/cluster"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/route"
)

const msgNoCluster = "ERR This instance has cluster support disabled"

// clusterHandlers show Leash as one node that owns every slot. In front of a single Redis, they
// answer with the error of a Redis that is not in a cluster.
func clusterHandlers(t command.Table) handlers {
	all := family("CLUSTER|", cluster.Commands(), func(run cluster.Run) handler {
		return onCluster(func(s *session, _ *command.Command, cmd resp.Command) bool {
			addr := s.server.announcedAddr(s.conn)
			return run(cluster.View{Addr: addr, Router: &s.router}, cmd)
		})
	})
	for name, c := range t["CLUSTER"].Subs {
		if c.Class == command.Refused {
			all["CLUSTER|"+name] = onCluster(onRouter((*route.Router).Refuse))
		}
	}
	okay := onCluster(func(s *session, _ *command.Command, _ resp.Command) bool { return s.router.OK() })
	all["READONLY"], all["READWRITE"], all["ASKING"] = okay, okay, okay
	return all
}

// onCluster makes a handler that runs only in front of a cluster. Redis's own checks come first.
func onCluster(run handler) handler {
	return ready(func(s *session, c *command.Command, cmd resp.Command) bool {
		if !s.server.up.Topology().Cluster() {
			return s.router.Fail(msgNoCluster)
		}
		return run(s, c, cmd)
	})
}

// announcedAddr returns the address that Leash announces to a client. It is Config.Announce. If
// that is not set, it is the address that the client connected to. A client of a unix socket gets
// the address of the first TCP listener.
func (s *Server) announcedAddr(c *client.Conn) cluster.Addr {
	if s.announce != (cluster.Addr{}) {
		return s.announce
	}
	if own := cluster.AddrOf(c.LocalAddr()); own != (cluster.Addr{}) {
		return own
	}
	return s.firstTCPAddr
}
