package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// right is what a request may do.
type right int

const (
	nothing right = iota
	reads
	writes // and reads
)

// Answers to requests that lack a right.
const (
	sayToken     = "give the token: Authorization: Bearer <token>\n"
	sayTokenFile = "this address can be reached from other machines: start Leash with --admin-token-file\n"
	sayHost      = "without --admin-token-file, ask by 127.0.0.1, [::1] or localhost\n"
	sayReadOnly  = "this token may only read: use the one of --admin-write-token-file\n"
	sayNoWrites  = "nobody may change anything: start Leash with --admin-write-token-file\n"
)

// rightOf is what the token of a request allows.
func (s *Server) rightOf(r *http.Request) right {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nothing
	}
	token = strings.TrimSpace(token)
	switch {
	case same(token, s.cfg.WriteToken):
		return writes
	case same(token, s.cfg.Token):
		return reads
	}
	return nothing
}

// same compares a token with the right one, which takes as long whatever was sent. An empty token
// is never right.
func same(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// authorized asks for a token, if there is one.
func (s *Server) authorized(next http.Handler) http.Handler {
	if s.cfg.Token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.rightOf(r) == nothing {
			s.sayUnauthorized(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RightsHeader is the header of an answer of the API. It says what the token allows: "read" or
// "read, write".
const RightsHeader = "Leash-Rights"

// private is for the API, which shows names of locks and clients. Without a token, it answers only
// on this machine, and only to requests for this machine: a page of another site could give its own
// name our address. A request that changes something needs the token for that, and must not come
// from the page of another site.
func (s *Server) private(next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := s.rightOf(r)
		change := r.Method != http.MethodGet && r.Method != http.MethodHead
		switch {
		case s.cfg.Token == "" && s.cfg.Exposed:
			say(w, http.StatusForbidden, sayTokenFile)
		case s.cfg.Token == "" && !isLocal(r.Host):
			say(w, http.StatusForbidden, sayHost)
		case s.cfg.Token != "" && has == nothing:
			s.sayUnauthorized(w)
		case change && s.cfg.WriteToken == "":
			say(w, http.StatusForbidden, sayNoWrites)
		case change && has != writes:
			say(w, http.StatusForbidden, sayReadOnly)
		default:
			w.Header().Set(RightsHeader, "read")
			if has == writes {
				w.Header().Set(RightsHeader, "read, write")
			}
			protected.ServeHTTP(w, r)
		}
	})
}

func (s *Server) sayUnauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	say(w, http.StatusUnauthorized, sayToken)
}

// isLocal reports whether the Host of a request is this machine.
func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// IsLoopback reports whether only this machine reaches a listener with that address.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
