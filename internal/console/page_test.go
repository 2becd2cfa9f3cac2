package console

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestPage checks that each file that the page names is there, and that browsers let it load
// nothing else.
func TestPage(t *testing.T) {
	c, _ := serve(t, &fake{})
	s := httptest.NewServer(c.Page())
	defer s.Close()
	files, err := page.ReadDir("page")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, f := range files {
		path := "/console/" + f.Name()
		answer, err := s.Client().Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 || answer.Header.Get("Content-Type") == "" ||
			!strings.HasPrefix(answer.Header.Get("Content-Security-Policy"), "default-src 'none';") {
			t.Errorf("%s: got %d with %v", path, answer.StatusCode, answer.Header)
		}
		for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "://"} {
			if rest := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""); strings.Contains(rest, word) {
				t.Errorf("%s has %s", path, word)
			}
		}
		for _, m := range regexp.MustCompile(`(?:from "\./|"console/)([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			if _, err := page.ReadFile("page/" + m[1]); err != nil {
				t.Errorf("%s names %s, which is not there", path, m[1])
			}
		}
	}
	if status, text := get(t, s, "/"); status != 200 || !strings.Contains(text, "<!doctype html>") {
		t.Errorf("the page: got %d", status)
	}
	for _, path := range []string{"/console/", "/console/nothing.js", "/console/..%2Fpage.go", "/index.html"} {
		if status, _ := get(t, s, path); status != 404 {
			t.Errorf("%s: got %d", path, status)
		}
	}
}

// FuzzQuery sends any query to each path. The answer is JSON or a sentence, and never a failure.
func FuzzQuery(f *testing.F) {
	c := New(Config{
		Backend: func() *Backend { return &Backend{&fake{}, &fake{}} }, Ready: func() bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
	api := c.API()
	for _, query := range []string{
		"", "page=2&search=a", "sort=-ttl", "key=%00%ff&db=3", "key=k&token=1&token=2", "id=5", "page=-1", "a;b", "%zz=%",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"overview", "holds", "lock", "clients", "break", "kill"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r := &http.Request{Method: method, URL: &url.URL{Path: "/api/" + path, RawQuery: query}}
				w := httptest.NewRecorder()
				api.ServeHTTP(w, r)
				switch w.Code {
				case http.StatusOK:
					if !json.Valid(w.Body.Bytes()) {
						t.Errorf("%s?%q: got %q", path, query, w.Body)
					}
				case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
				default:
					t.Errorf("%s?%q: got %d", path, query, w.Code)
				}
			}
		}
	})
}
