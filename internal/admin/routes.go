package admin

import (
	"io"
	"net/http"
	"net/http/pprof"
	"time"
)

// routes returns what answers each path. Other paths get 404.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.authorized(s.cfg.Metrics))
	if s.cfg.Token != "" {
		mux.Handle("/debug/pprof/", s.authorized(profiles()))
	}
	if s.cfg.API != nil {
		mux.Handle("/api/", s.private(s.cfg.API))
	}
	if s.cfg.Page != nil {
		mux.Handle("GET /{$}", s.cfg.Page)
		mux.Handle("GET /console/", s.cfg.Page)
	}
	return mux
}

// readyz answers whether clients can work now.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Ready(r.Context()) {
		say(w, http.StatusOK, "ok\n")
		return
	}
	say(w, http.StatusServiceUnavailable, "not ready\n")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// profiles are the handlers of net/http/pprof, without those of the default mux.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound) // the arguments may have passwords
	mux.HandleFunc("/debug/pprof/profile", unhurried(pprof.Profile))
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", unhurried(pprof.Trace))
	return mux
}

// unhurried is for a profile that takes as many seconds as the client asks for. net/http would end
// it at the time for reading the request, which is over then. pprof moves the one for writing.
func unhurried(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		next(w, r)
	}
}
