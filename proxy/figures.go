package proxy

import (
	"context"
	"time"

	"leash/internal/guard"
	"leash/internal/limits"
	"leash/lockcmd/view"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// Figures are what metrics show of a Server: figures of this moment, and counts since the start.
type Figures struct {
	Clients, ClientsLimit, Blocked int

	Accepted, Refused        int64            // connections
	Disconnections           map[string]int64 // ended clients by the reason, one of DisconnectionReasons
	ReceivedBytes, SentBytes int64            // of clients' connections

	ProtocolErrors, HeaderErrors, HandshakeErrors int64

	Commands  map[string]int64 // commands by their class, one of CommandClasses
	Errors    map[string]int64 // those that were answered with an error
	Redirects map[string]int64 // refusals by nodes of a cluster, by one of RedirectKinds

	Upstream      upstream.Stats
	Locks         view.Stats
	Subscriptions pubsub.Stats

	LimitRefusals map[string]int64 // by the name of the kind in package limits, address_clients, name_holds or memory
	LimitDelays   map[string]int64 // of commands and accepts

	MemoryUsed, MemoryLimit int64 // bytes of the process; the limit is 0 without --max-memory

	CertificateErrors int64
	Panics            int64
	Draining          bool
	Uptime            time.Duration
}

// CommandClasses are the keys of Figures.Commands and Figures.Errors.
func CommandClasses() (names []string) {
	for i := range classes {
		names = append(names, className(i))
	}
	return names
}

// RedirectKinds are the keys of Figures.Redirects.
func RedirectKinds() []string { return redirectKinds[:] }

// disconnectionReasons are the reasons for the end of a session that metrics tell apart, as logEnd
// counts them. All others are "other".
var disconnectionReasons = [...]string{
	"client_closed", "quit", "connection_broken", "protocol_error", "client_kill", "lock_lost",
	"lock_moved_to_another_connection", "output_limit", "output_budget", "output_limit_of_subscribers",
	"peer_timeout", "credential_refused", "internal_error", "server_stops", "protected_mode",
	"user_limit", "address_limit", "login_timeout", "idle_timeout",
	"memory_limit", "user_output_limit",
}

// LimitNames are the keys of Figures.LimitRefusals.
func LimitNames() []string { return append(limits.Names[:], "address_clients", "name_holds", "memory") }

// DisconnectionReasons are the keys of Figures.Disconnections.
func DisconnectionReasons() []string { return append(disconnectionReasons[:], "other") }

// Figures returns the figures of this moment. It visits every client and every link, and blocks for
// no I/O. Safe for concurrent use.
func (s *Server) Figures() Figures {
	st := &s.stats
	f := Figures{
		Clients: s.sessionCount(), ClientsLimit: s.Settings().MaxClients, Blocked: s.count((*session).isBlocked),
		Accepted: st.accepted.Load(), Refused: st.refused.Load(), Disconnections: st.disconnections(),
		ReceivedBytes: st.inBytes.Load(), SentBytes: st.outBytes.Load(),
		ProtocolErrors: st.protocolErrors.Load(), HeaderErrors: s.entries.BadHeaders.Load(),
		HandshakeErrors: s.entries.BadHandshakes.Load(),
		Commands:        make(map[string]int64), Errors: make(map[string]int64), Redirects: make(map[string]int64),
		Upstream: s.up.Stats(), Locks: s.locks.Stats(), Subscriptions: s.exchange.Stats(),
		Panics: guard.Panics(), Draining: s.isDraining(), Uptime: s.uptime(),
	}
	f.LimitRefusals = s.users.Refused()
	f.LimitRefusals["address_clients"] = s.addresses.Refused()[limits.Clients.String()]
	f.LimitRefusals["name_holds"] = f.Locks.NameLimited
	f.LimitRefusals["memory"] = s.memory.refused.Load()
	f.MemoryUsed, f.MemoryLimit = memoryUsed(), s.memory.most
	f.LimitDelays = map[string]int64{"commands": s.users.Delayed(), "accepts": st.acceptsDelayed.Load()}
	for i := range classes {
		f.Commands[className(i)], f.Errors[className(i)] = st.commands[i].Load(), st.errors[i].Load()
	}
	for i, kind := range redirectKinds {
		f.Redirects[kind] = st.redirects[i].Load()
	}
	for _, c := range s.cfg.Certificates {
		f.CertificateErrors += c.Failures()
	}
	return f
}

// disconnections returns the ended sessions by their reason. Every known reason is there.
func (s *stats) disconnections() map[string]int64 {
	counts := make(map[string]int64, len(disconnectionReasons)+1)
	for _, reason := range DisconnectionReasons() {
		counts[reason] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for reason, n := range s.reasons {
		if _, known := counts[reason]; !known {
			reason = "other"
		}
		counts[reason] += n
	}
	return counts
}

// Ready reports whether clients can work now: a master answers, and the server does not stop. It
// does not block. It may take 2 s to notice that the masters say nothing.
func (s *Server) Ready() bool { return s.up.Usable() && !s.isDraining() }

// Answers is Ready, but asks the masters now if none has just answered. It takes 0.9 s at most.
func (s *Server) Answers(ctx context.Context) bool { return s.up.Answers(ctx) && !s.isDraining() }
