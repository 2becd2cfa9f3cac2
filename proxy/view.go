package proxy

import (
	"strings"
	"time"

	"leash/proxy/clients"
	"leash/proxy/upstream"
)

// ClientView is a client as people see it.
type ClientView struct {
	ID               int64
	Addr, Name, User string // Name is that of CLIENT SETNAME; empty for none
	Library          string // name and version; empty for none
	Command          string // the last one; NULL for none
	Flags            string // as in CLIENT LIST
	DB               int
	Age, Idle        time.Duration
	Holds            int // locks and permits that its connection carries
	Input, Output    int // bytes of commands in flight and of output that waits
}

// SearchClients lists clients whose address, name, user, library or last command contains the text:
// count of them at most, after the first ones. The oldest comes first. found is how many fit in
// all. It visits every client, and does not block. Safe for concurrent use.
func (s *Server) SearchClients(text string, first, count int) (found int, clients []ClientView) {
	return s.clientViews(func(v *ClientView) bool { return v.contains(text) }, first, count)
}

// clientViews is SearchClients for the clients that fit.
func (s *Server) clientViews(fits func(*ClientView) bool, first, count int) (found int, clients []ClientView) {
	for _, one := range s.sortedSessions() {
		v := viewOf((*owner)(one).Describe())
		if !fits(&v) {
			continue
		}
		if found >= first && len(clients) < count {
			if c := one.carrier(); c != nil {
				v.Holds = c.Holds()
			}
			clients = append(clients, v)
		}
		found++
	}
	return found, clients
}

func viewOf(d *clients.Description) ClientView {
	return ClientView{
		ID: d.ID, Addr: d.Addr, Name: d.Name, User: d.User, Library: strings.TrimSpace(d.LibName + " " + d.LibVersion),
		Command: d.Command, Flags: d.Flags(), DB: d.DB, Age: d.Age, Idle: d.Idle, Input: d.Requests, Output: d.Output,
	}
}

func (v *ClientView) contains(text string) bool {
	for _, field := range [...]string{v.Addr, v.Name, v.User, v.Library, v.Command} {
		if strings.Contains(field, text) {
			return true
		}
	}
	return false
}

// Nodes shows the nodes of Redis. It visits every link, and does not block.
func (s *Server) Nodes() []upstream.NodeView { return s.up.NodeViews() }

// KillClient ends the connection of a client, like CLIENT KILL ID. Its locks expire (rule R28). It
// returns false if there is no such client. It does not block.
func (s *Server) KillClient(id int64) bool {
	one := s.sessionOf(id)
	return one != nil && (*owner)(one).Kill()
}
