package program

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// adminClient asks the admin port of a Leash that runs in this process.
type adminClient struct {
	t    *testing.T
	addr string
}

var adminLine = regexp.MustCompile(`admin port is open" address=(\S+)`)

// dialAdmin waits until Leash has logged the address.
func dialAdmin(t *testing.T, log *safeBuffer) *adminClient {
	t.Helper()
	a := &adminClient{t: t}
	eventually(t, "the admin port is open", func() bool {
		if m := adminLine.FindStringSubmatch(log.String()); m != nil {
			a.addr = m[1]
		}
		return a.addr != ""
	})
	return a
}

// get returns the status and the text of an answer; 0 if there is none.
func (a *adminClient) get(path string) (status int, text string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + a.addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b)
}

// shows reports whether the metrics have a line.
func (a *adminClient) shows(line string) bool {
	_, text := a.get("/metrics")
	return strings.Contains(text, "\n"+line+"\n")
}

func (a *adminClient) is(path string, want int) func() bool {
	return func() bool { status, _ := a.get(path); return status == want }
}

// TestAdminPort follows a Leash from before Redis is there until after SIGTERM.
func TestAdminPort(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "leash.sock")
	ctx, stop := context.WithCancel(t.Context())
	var out safeBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "unix:" + socket, "--upstream", redis.Addr, "--admin", "127.0.0.1:0"}, nil, &out, &out)
	}()
	admin := dialAdmin(t, &out)
	if status, _ := admin.get("/livez"); status != 200 {
		t.Errorf("alive without Redis: got %d", status)
	}
	if status, _ := admin.get("/readyz"); status != 503 {
		t.Errorf("ready without Redis: got %d", status)
	}
	if !admin.shows("leash_ready 0") || !admin.shows(`leash_lock_losses_total{reason="gone"} 0`) {
		t.Error("the series are not there before Redis is")
	}

	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready", admin.is("/readyz", 200))
	client := dialUnix(t, socket)
	eventually(t, "it serves", func() bool { got, err := client.Do("LOCK.ACQUIRE", "a"); return err == nil && got[0] == ':' })
	for _, line := range []string{`leash_lock_holds{mode="plain"} 1`, "leash_clients 1", "leash_ready 1",
		`leash_upstream_masters_usable 1`, `leash_lock_acquires_total{outcome="granted"} 1`} {
		if !admin.shows(line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if got, err := client.Do("INCR", "n"); err != nil || got != ":1\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := client.Do("LPUSH", "n", "x"); err != nil || !strings.HasPrefix(got, "-WRONGTYPE") {
		t.Errorf("got %q, %v", got, err)
	}
	eventually(t, "the relayed commands are counted", func() bool {
		return admin.shows(`leash_commands_total{class="relayed"} 2`) && admin.shows(`leash_command_errors_total{class="relayed"} 1`)
	})

	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is not ready without Redis", admin.is("/readyz", 503))
	if status, _ := admin.get("/livez"); status != 200 {
		t.Errorf("alive after the loss of Redis: got %d", status)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready again", admin.is("/readyz", 200))

	holder := dialUnix(t, socket)
	if got, err := holder.Do("LOCK.ACQUIRE", "b", "BLOCK", "0"); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v", got, err)
	}
	stop()
	if status, _ := admin.get("/readyz"); status != 503 {
		t.Errorf("ready after SIGTERM: got %d", status)
	}
	eventually(t, "the stop is visible", func() bool { return admin.shows("leash_draining 1") })
	if _, err := holder.Do("LOCK.RELEASE", "b"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if status, _ := admin.get("/livez"); status != 0 {
		t.Errorf("the port answers after the end: %d", status)
	}
}

// TestConsole reads a lock with a binary name by the API, and follows its events until the end of
// Leash, which waits for no reader.
func TestConsole(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	socket := filepath.Join(t.TempDir(), "leash.sock")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out safeBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "unix:" + socket, "--upstream", redis.Addr, "--admin", "127.0.0.1:0"}, nil, &out, &out)
	}()
	admin := dialAdmin(t, &out)
	eventually(t, "it is ready", admin.is("/api/overview", 200))
	client, key := dialUnix(t, socket), "a\x00\xff b"
	if got, err := client.Do("LOCK.ACQUIRE", key, "OWNER", "me"); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v", got, err)
	}
	for path, part := range map[string]string{
		"/api/holds?search=me":                           `"key":"a\\x00\\xff b","link":"key=a%00%FF+b\u0026db=0"`,
		"/api/holds?search=nobody":                       `"found":0`,
		"/api/lock?key=a%00%FF+b":                        `"owner":"me"`,
		"/api/lock?key=free":                             `"state":"free"`,
		"/api/lock?" + url.Values{"key": {"{"}}.Encode(): `"state":"free"`,
		"/api/clients?search=lock.acquire":               `"holds":1`,
		"/api/overview":                                  redis.Addr,
	} {
		if status, text := admin.get(path); status != 200 || !strings.Contains(text, part) {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}

	answer, err := http.Get("http://" + admin.addr + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	events := bufio.NewScanner(answer.Body)
	says := func(part string) bool {
		for events.Scan() {
			if strings.Contains(events.Text(), part) {
				return true
			}
		}
		return false
	}
	if !says("overview") {
		t.Error("no overview")
	}
	// The reply is 2 when a busy machine takes over a second to confirm that the holder was told.
	if got, err := dialUnix(t, socket).Do("LOCK.BREAK", key); err != nil || got != ":1\r\n" && got != ":2\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if !says(`"reason":"broken"`) {
		t.Error("the loss is not told")
	}
	stop()
	if says("nothing says this") {
		t.Error("the stream goes on")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
