package proxy

import (
	"leash/proxy/clients"
	"leash/proxy/links"
	"leash/proxy/operators"
)

// SearchClients lists clients whose address, name, user, library or last command contains the text:
// count of them at most, after the first ones. The oldest comes first. found is how many fit in
// all. It visits every client, and does not block. Safe for concurrent use.
func (s *Server) SearchClients(text string, first, count int) (found int, shown []clients.View) {
	return s.FindClients(func(v *clients.View) bool { return v.Contains(text) }, first, count)
}

// FindClients is SearchClients for the clients that fit.
func (s *Server) FindClients(fits func(*clients.View) bool, first, count int) (found int, shown []clients.View) {
	for _, one := range s.sortedSessions() {
		v := clients.ViewOf((*owner)(one).Describe())
		if !fits(&v) {
			continue
		}
		if found >= first && len(shown) < count {
			v.Holds = one.locks.Load().Holds()
			shown = append(shown, v)
		}
		found++
	}
	return found, shown
}

// Nodes shows the nodes of Redis. It visits every link, and does not block.
func (s *Server) Nodes() []links.NodeView { return s.up.NodeViews() }

// KillClient ends the connection of a client, like CLIENT KILL ID. Its locks expire (rule R28). It
// returns false if there is no such client. It does not block.
func (s *Server) KillClient(id int64) bool {
	one := s.sessionOf(id)
	return one != nil && (*owner)(one).Kill()
}

// Waiters are the clients whose lock command waits, the oldest client first. It visits every
// client, and does not block. Safe for concurrent use.
func (s *Server) Waiters() (all []operators.Waiter) {
	for _, one := range s.sortedSessions() {
		if c := one.locks.Load().Carrier(); c != nil {
			if v, ok := c.Waiting(); ok {
				all = append(all, operators.Waiter{Client: one.clientName(), ClientID: one.id, WaiterView: v})
			}
		}
	}
	return all
}
