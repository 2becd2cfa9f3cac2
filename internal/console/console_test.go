package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"leash/lockcmd"
	"leash/lockcmd/release"
	"leash/lockcmd/view"
	"leash/proxy"
	"leash/proxy/clients"
	"leash/proxy/links"
)

// fake is a Server and Locks with answers of the test.
type fake struct {
	holds  view.List
	search view.Search // the last one
	lock   view.Lock
	err    error
	block  chan struct{} // ViewLock waits for it, if not nil
	asked  chan struct{} // gets an element when ViewLock waits
	broken string        // what the last Break was asked for
	how    release.BreakOutcome
}

func (f *fake) KillClient(id int64) bool { return id == 5 }

func (f *fake) Break(db int, key string, confirmed []int64) (release.BreakOutcome, error) {
	f.broken = fmt.Sprintf("%d %s %d", db, key, confirmed)
	return f.how, f.err
}

func (f *fake) Figures() proxy.Figures { return proxy.Figures{Clients: 7} }

func (f *fake) Nodes() []links.NodeView {
	return []links.NodeView{{Addr: "10.0.0.1:6379", Role: "master", Usable: true, Counts: links.Counts{SharedLinks: 2}}}
}

func (f *fake) FindClients(fits func(*clients.Description) bool, first, count int) (int, []*clients.Description) {
	one := &clients.Description{ID: 5, Age: time.Second, Multi: -1}
	if one.Name = "x" + fmt.Sprint(first, count); !fits(one) {
		return 0, nil
	}
	return 1, []*clients.Description{one}
}

func (f *fake) SearchHolds(search view.Search) view.List {
	f.search = search
	return f.holds
}

func (f *fake) ViewLock(int, string, time.Time) (view.Lock, error) {
	if f.block != nil {
		f.asked <- struct{}{}
		<-f.block
	}
	return f.lock, f.err
}

// serve runs a Console until the test ends.
func serve(t *testing.T, f *fake) (*Console, *httptest.Server) {
	t.Helper()
	backend := &Backend{f, f}
	if f == nil {
		backend = nil
	}
	c := New(Config{
		Version: "v1", Backend: func() *Backend { return backend }, Ready: func() bool { return true },
		Log: slog.New(slog.DiscardHandler),
	})
	s := httptest.NewServer(c.API())
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// get asks for a path.
func get(t *testing.T, s *httptest.Server, path string) (int, string) {
	t.Helper()
	answer, err := s.Client().Get(s.URL + path)
	return content(t, answer, err)
}

// content returns the status and the text of an answer.
func content(t *testing.T, answer *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func TestBadInput(t *testing.T) {
	_, s := serve(t, &fake{})
	for path, says := range map[string]string{
		"/api/holds?page=0":                                     "page is a number from 1 to 1000000",
		"/api/holds?page=x":                                     "page is a number",
		"/api/holds?page=99999999999999999999":                  "page is a number",
		"/api/holds?sort=size":                                  "sort is age, key, ttl, waiters or mode",
		"/api/holds?sort=--age":                                 "sort is",
		"/api/holds?search=a&search=b":                          "search is there twice",
		"/api/holds?find=a":                                     `unknown parameter "find"`,
		"/api/holds?search=%zz":                                 "the query is not valid",
		"/api/holds?a;b":                                        "the query is not valid",
		"/api/holds?search=" + strings.Repeat("a", maxSearch+1): "search has more than 1024 bytes",
		"/api/lock":                                             "give the key of the lock",
		"/api/lock?key=a&db=-1":                                 "db is a number",
		"/api/lock?key=a&db=%00%1b[m":                           `not "\\x00\\x1b[m"`,
		"/api/lock?key=" + strings.Repeat("a", maxKey+1):        "the key has more than 4096 bytes",
		"/api/clients?page=-1":                                  "page is a number",
		"/api/events?from=1":                                    "unknown parameter",
		"/api/overview?x=%E2%80%AE":                             "unknown parameter",
	} {
		if status, text := get(t, s, path); status != 400 || !strings.Contains(text, says) {
			t.Errorf("%.60s: got %d %s", path, status, text)
		}
	}
	for _, path := range []string{"/api/", "/api/holds/", "/api/nothing"} {
		if status, _ := get(t, s, path); status != 404 {
			t.Errorf("%s: got %d", path, status)
		}
	}
	_, s = serve(t, nil)
	for _, path := range []string{"/api/overview", "/api/holds", "/api/lock?key=a", "/api/clients", "/api/events"} {
		if status, text := get(t, s, path); status != 503 || !strings.Contains(text, "not connected") {
			t.Errorf("%s before Redis: got %d %s", path, status, text)
		}
	}
}

// TestNames checks that names of any bytes are shown readably, and that their links mean them
// exactly.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"order:42": "order:42", "日本": "日本", "a b": "a b", "": "",
		"a\x00\xff\n": `a\x00\xff\n`, "\u202egpj": `\u202egpj`, "<b>": "<b>", "\u00a0": `\u00a0`,
		strings.Repeat("é", 300):    strings.Repeat("é", 128) + "… and 344 bytes",
		strings.Repeat("\xbf", 300): strings.Repeat(`\xbf`, 252) + "… and 48 bytes",
	} {
		if got := shown(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		values, err := url.ParseQuery(linkOf(3, name))
		if err != nil || values.Get("key") != name || values.Get("db") != "3" {
			t.Errorf("the link of %q: got %q, %v", name, values, err)
		}
	}
	if linkOf(0, strings.Repeat("k", maxKey+1)) != "" {
		t.Error("a link for a key that the API refuses")
	}
}

func TestHoldsAndClients(t *testing.T) {
	f := &fake{holds: view.List{Found: 120, Holds: []view.Hold{{
		Key: "a\x00", DB: 2, Mode: "plain", Owner: "me", Token: 1795602726208790, Age: 3 * time.Second, Left: -time.Second,
	}}}}
	_, s := serve(t, f)
	status, text := get(t, s, "/api/holds?search=order&sort=-waiters&page=3")
	for _, part := range []string{`"found":120`, `"page_size":50`, `"key":"a\\x00"`, `"link":"key=a%00\u0026db=2"`,
		`"token":1795602726208790`, `"age_ms":3000`, `"left_ms":0`} {
		if status != 200 || !strings.Contains(text, part) {
			t.Errorf("got %d %s, want %s", status, text, part)
		}
	}
	want := view.Search{Text: "order", By: view.ByWaiters, Reverse: true, First: 100, Count: pageSize}
	if !reflect.DeepEqual(f.search, want) {
		t.Errorf("got %+v, want %+v", f.search, want)
	}
	if status, text = get(t, s, "/api/clients?search=x&page=2"); status != 200 || !strings.Contains(text, `"name":"x50 50"`) {
		t.Errorf("got %d %s", status, text)
	}
	if status, text = get(t, s, "/api/overview"); status != 200 || !strings.Contains(text, `"shared_links":2`) {
		t.Errorf("got %d %s", status, text)
	}
}

func TestLock(t *testing.T) {
	f := &fake{lock: view.Lock{State: "held", Holds: []view.Hold{{Key: "k", Token: 9}}, Waiters: 1,
		Queue: []view.Waiter{{Owner: "you", Waited: time.Second}}}}
	c, s := serve(t, f)
	c.Observer().Observe(view.Change{Kind: view.Lost, Key: "k", Reason: "broken"})
	c.Observer().Observe(view.Change{Kind: view.Lost, Key: "other", Reason: "broken"})
	status, text := get(t, s, "/api/lock?key=k")
	if status != 200 || !strings.Contains(text, `"waited_ms":1000`) || strings.Count(text, `"reason":"broken"`) != 1 {
		t.Errorf("got %d %s", status, text)
	}
	for _, x := range []struct {
		err    error
		status int
		says   string
	}{
		{&lockcmd.BadKeyError{Text: "ERR bad"}, 400, "ERR bad"},
		{fmt.Errorf("asked: %w", errors.New("boom")), 502, "Redis answered"},
	} {
		f.err = x.err
		if status, text := get(t, s, "/api/lock?key=k"); status != x.status || !strings.Contains(text, x.says) {
			t.Errorf("%v: got %d %s", x.err, status, text)
		}
	}
}

// TestTooManyRequests fills the limit with questions that Redis does not answer.
func TestTooManyRequests(t *testing.T) {
	f := &fake{block: make(chan struct{}), asked: make(chan struct{})}
	_, s := serve(t, f)
	answers := make(chan int, maxRequests)
	for range maxRequests {
		go func() {
			answer, err := http.Get(s.URL + "/api/lock?key=k")
			if err != nil {
				answers <- 0
				return
			}
			answer.Body.Close()
			answers <- answer.StatusCode
		}()
		<-f.asked
	}
	if status, text := get(t, s, "/api/overview"); status != 503 || !strings.Contains(text, "too many") {
		t.Errorf("got %d %s", status, text)
	}
	close(f.block)
	for range maxRequests {
		if status := <-answers; status != 200 {
			t.Errorf("got %d", status)
		}
	}
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// post returns the status and the text of an answer.
func post(t *testing.T, s *httptest.Server, path string) (int, string) {
	t.Helper()
	answer, err := s.Client().Post(s.URL+path, "", nil)
	return content(t, answer, err)
}

func TestBreakAndKill(t *testing.T) {
	f := &fake{how: release.WasTold}
	_, s := serve(t, f)
	for _, x := range []struct {
		path   string
		err    error
		status int
		says   string
	}{
		{"/api/break?key=k&db=1&token=7&token=8", nil, 200, "Its holder was told"},
		{"/api/break?key=k&token=7", release.ErrOtherHolder, 409, "another holder"},
		{"/api/break?key=k&token=7", &lockcmd.BadKeyError{Text: "ERR bad"}, 400, "ERR bad"},
		{"/api/break?key=k", nil, 400, "give the token"},
		{"/api/break?key=k&token=x", nil, 400, "token is a number"},
		{"/api/break?token=7", nil, 400, "give the key"},
		{"/api/break?key=k&key=l&token=7", nil, 400, "key is there twice"},
		{"/api/kill?id=5", nil, 200, "closed"},
		{"/api/kill?id=6", nil, 404, "no such client"},
		{"/api/kill", nil, 400, "give the id"},
		{"/api/kill?id=-1", nil, 400, "id is a number"},
		{"/api/holds", nil, 405, ""},
	} {
		f.err = x.err
		if status, text := post(t, s, x.path); status != x.status || !strings.Contains(text, x.says) {
			t.Errorf("%s: got %d %s", x.path, status, text)
		}
	}
	f.err = nil
	post(t, s, "/api/break?key=%FF&db=1&token=7&token=8")
	if f.broken != "1 \xff [7 8]" {
		t.Errorf("broke %q", f.broken)
	}
	for _, path := range []string{"/api/break?key=k&token=7", "/api/kill?id=5"} {
		if status, _ := get(t, s, path); status != 405 {
			t.Errorf("GET %s: got %d", path, status)
		}
	}
}

// TestLogOfBreaks: the log has a line for a lock that was broken, and none for one that was free.
func TestLogOfBreaks(t *testing.T) {
	for how, lines := range map[release.BreakOutcome]int{release.WasFree: 0, release.WasTold: 1, release.WasForced: 1} {
		var log bytes.Buffer
		c, s := serve(t, &fake{how: how})
		c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		post(t, s, "/api/break?key=k&token=7")
		if n := strings.Count(log.String(), "lock broken at the admin port"); n != lines {
			t.Errorf("outcome %v: got %q", how, log.String())
		}
	}
}
