package admin

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAccessToAPI checks who may read and who may change something.
func TestAccessToAPI(t *testing.T) {
	const local, other = "127.0.0.1:9121", "leash.example:9121"
	for _, x := range []struct {
		name              string
		token, writeToken string
		exposed           bool
		method, host      string
		header            http.Header
		status            int
		says              string
	}{
		{"no token, on this machine", "", "", false, "GET", local, nil, 200, "read"},
		{"no token, by name", "", "", false, "GET", "localhost:1", nil, 200, "read"},
		{"no token, by IPv6", "", "", false, "GET", "[::1]:9121", nil, 200, "read"},
		{"no token, by IPv6 without a port", "", "", false, "GET", "[::1]", nil, 200, "read"},
		{"no token, by another name", "", "", false, "GET", other, nil, 403, sayHost},
		{"no token, for other machines", "", "", true, "GET", local, nil, 403, sayTokenFile},
		{"a change without any token", "", "", false, "POST", local, nil, 403, sayNoWrites},
		{"no token given", "r", "", true, "GET", other, nil, 401, sayToken},
		{"a wrong one", "r", "", true, "GET", other, bearer("x"), 401, sayToken},
		{"an empty one", "r", "", true, "GET", other, bearer(""), 401, sayToken},
		{"the token", "r", "", true, "GET", other, bearer("r"), 200, "read"},
		{"a change without a token for it", "r", "", false, "POST", local, bearer("r"), 403, sayNoWrites},
		{"a change with the token for reading", "r", "w", false, "POST", local, bearer("r"), 403, sayReadOnly},
		{"another method", "r", "w", false, "DELETE", local, bearer("r"), 403, sayReadOnly},
		{"a change with the other token", "r", "w", false, "POST", local, bearer("w"), 200, "read, write"},
		{"reading with the other token", "r", "w", false, "GET", local, bearer("w"), 200, "read, write"},
		{"a change from its own page", "r", "w", true, "POST", other, from("http://" + other), 200, "write"},
		{"a change from another site", "r", "w", true, "POST", other, from("http://evil.example"), 403, ""},
		{"a change from a file", "r", "w", true, "POST", other, from("null"), 403, ""},
	} {
		s := New(Config{
			Token: x.token, WriteToken: x.writeToken, Exposed: x.exposed, API: http.HandlerFunc(showRights),
			Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler),
		})
		r := httptest.NewRequest(x.method, "http://"+x.host+"/api/holds", nil)
		for name, values := range x.header {
			r.Header[name] = values
		}
		w := httptest.NewRecorder()
		s.routes().ServeHTTP(w, r)
		if w.Code != x.status || !strings.Contains(w.Body.String(), x.says) {
			t.Errorf("%s: got %d %s, want %d %s", x.name, w.Code, w.Body, x.status, x.says)
		}
	}
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// from is the header of a request by the page of a site.
func from(origin string) http.Header {
	h := bearer("w")
	h.Set("Origin", origin)
	return h
}

func showRights(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, w.Header().Get(RightsHeader))
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false,
	} {
		if got := IsLoopback(&net.TCPAddr{IP: net.ParseIP(addr)}); got != want {
			t.Errorf("%s: got %v", addr, got)
		}
	}
}
