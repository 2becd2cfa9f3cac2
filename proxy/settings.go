package proxy

import "time"

// Settings are the part of a Config that may change while the server runs.
type Settings struct {
	MaxClients      int
	MaxBulk         int64
	MaxArgs         int
	MaxClientOutput int64
	PeerTimeout     time.Duration
	DrainTimeout    time.Duration
	OnDisconnect    string
	SlowerThan      time.Duration
	SlowLength      int
}

func (c Config) settings() *Settings {
	return &Settings{
		MaxClients: c.MaxClients, MaxBulk: c.MaxBulk, MaxArgs: c.MaxArgs, MaxClientOutput: c.MaxClientOutput,
		PeerTimeout: c.PeerTimeout, DrainTimeout: c.DrainTimeout, OnDisconnect: c.OnDisconnect,
		SlowerThan: c.SlowerThan, SlowLength: c.SlowLength,
	}
}

// Settings returns the present values of what Change replaces. Safe for concurrent use.
func (s *Server) Settings() Settings { return *s.settings.Load() }

// Change replaces the settings that may change while the server runs, with their defaults where cfg
// has zero. It reads no other field of cfg. MaxBulk and MaxArgs are for new clients, and the rest
// is for all. No client is closed because there are more than MaxClients. Safe for concurrent use.
func (s *Server) Change(cfg Config) {
	next := cfg.withDefaults().settings()
	s.settings.Store(next)
	s.relaying.Slow.Set(next.SlowerThan, next.SlowLength)
}

// peerTimeout is Settings.PeerTimeout.
func (s *Server) peerTimeout() time.Duration { return s.settings.Load().PeerTimeout }
