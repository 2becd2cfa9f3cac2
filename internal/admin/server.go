package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"leash/internal/guard"
)

// Limits of a request and of a connection.
const (
	headerTimeout  = 5 * time.Second // to send the whole request
	writeTimeout   = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	maxConnections = 128
	// stopTimeout is how long a stop waits for requests; after it, as long again for their ends
	stopTimeout = time.Second
)

// Config says what a Server serves.
type Config struct {
	Token   string       // for all but the health checks; empty: none, and no profiles
	Metrics http.Handler // of /metrics
	// WriteToken allows the same as Token, and what changes something; empty: nobody may do that.
	WriteToken string
	Exposed    bool                       // other machines reach the port; then there is no API without a token
	API        http.Handler               // of /api/; nil: there is none
	Page       http.Handler               // of / and /console/, for everybody; nil: there is none
	OnStop     func()                     // called when the port begins to stop, to end long requests; may be nil
	Ready      func(context.Context) bool // for /readyz; must not block for longer than a second
	Log        *slog.Logger
}

// Server is the HTTP port. Make one with New and run it once with Run.
type Server struct {
	cfg         Config
	http        *http.Server
	connections connections
}

// New makes a Server. It starts nothing.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	s.connections.limit = maxConnections
	s.http = &http.Server{
		Handler:           s.guarded(s.routes()),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState:   s.connections.changed,
		ConnContext: withConn,
		ErrorLog:    slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	if cfg.OnStop != nil {
		s.http.RegisterOnShutdown(guard.Func(cfg.Log, "admin stop", cfg.OnStop))
	}
	return s
}

// Run serves ln until ctx ends, and closes it. It returns when every request has ended, or 2 s
// after the end of ctx.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	served := make(chan error, 1)
	go func() {
		served <- guard.Call(s.cfg.Log, "admin port", func() error { return s.http.Serve(ln) })
	}()
	select {
	case err := <-served:
		s.stop()
		return err
	case <-ctx.Done():
	}
	s.stop()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop lets requests end and closes all connections.
func (s *Server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.connections.idle():
	case <-timer.C:
	}
}

// guarded notes which connections have a request that runs. A panic ends only its request, with
// status 500.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.connections.begin(r.Context())
		defer s.connections.end(r.Context())
		if guard.Do(s.cfg.Log, "admin request", func() { next.ServeHTTP(w, r) }, "path", r.URL.Path) != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	})
}
