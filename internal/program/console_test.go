package program

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"leash/internal/redistest"
)

// consoleLeash is a Leash with a console that needs tokens.
type consoleLeash struct {
	t    *testing.T
	addr string // for clients
	url  string
}

func startConsole(t *testing.T) *consoleLeash {
	t.Helper()
	dir := t.TempDir()
	l := &consoleLeash{t: t}
	args := []string{"--listen", "127.0.0.1:0", "--upstream", redistest.Start(t).Addr, "--admin", "127.0.0.1:0"}
	for flag, token := range map[string]string{"--admin-token-file": "read", "--admin-write-token-file": "write"} {
		path := filepath.Join(dir, token)
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, flag, path)
	}
	ctx, stop := context.WithCancel(context.Background())
	var out safeBuffer
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, nil, &out, &out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	l.url = "http://" + dialAdmin(t, &out).addr + "/"
	eventually(t, "it is ready", func() bool {
		if m := readyLine.FindStringSubmatch(out.String()); m != nil {
			l.addr = m[1]
		}
		return l.addr != ""
	})
	return l
}

var readyLine = regexp.MustCompile(`leash is ready" listen=\[(\S+)\]`)

func (l *consoleLeash) dial() *redistest.Client {
	l.t.Helper()
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn)
}

// acquire takes a lock on a connection.
func (l *consoleLeash) acquire(c *redistest.Client, args ...string) {
	l.t.Helper()
	if got, err := c.Do(append([]string{"LOCK.ACQUIRE"}, args...)...); err != nil || got[0] != ':' {
		l.t.Fatalf("%q: got %q, %v", args, got, err)
	}
}

// TestConsoleInABrowser walks through the console as an operator would: with clicks and with keys,
// until the locks are broken that hang.
func TestConsoleInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser")
	}
	t.Parallel()
	chromium(t)
	l := startConsole(t)
	holder, named := l.dial(), l.dial()
	if _, err := named.Do("CLIENT", "SETNAME", "nightly-7"); err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		l.acquire(holder, fmt.Sprintf("order:%03d", i), "OWNER", "shop")
	}
	l.acquire(named, "report:nightly", "OWNER", "nightly:7")
	l.acquire(named, "bin\x00\xff", "LEASE", "600000")
	l.acquire(holder, strings.Repeat("long/", 600))
	waits := make(chan string, 1)
	waiter := l.dial()
	go func() {
		got, _ := waiter.Do("LOCK.ACQUIRE", "report:nightly", "BLOCK", "0", "OWNER", "nightly:8")
		waits <- got
	}()

	b := browse(t, l.url)
	b.signIn("wrong")
	b.shows("This token is not right.")
	b.signIn("read")
	b.shows("Overview", "123", "answers")
	b.until(`document.querySelector("#state").textContent === "ready"`)

	b.click("Holds")
	b.shows("123 in all", "page 1 of 3", "nightly:7")
	b.until(`document.querySelector("tbody tr a").textContent === "report:nightly"`) // the most waiters first
	b.click("Next ›")
	b.shows("page 2 of 3")
	b.click("Key")
	b.shows("page 1 of 3")
	b.until(`document.querySelector("tbody tr a").textContent === "bin\\x00\\xff"`)

	b.press("/")
	b.until(`document.activeElement.type === "search"`)
	b.eval(`document.activeElement.value = ""`) // DevTools also type the key that the page has taken
	b.press("o", "r", "d", "e", "r", ":", "1", "1")
	b.shows("10 found")
	b.press("x")
	b.click("Ask Redis for exactly this key")
	b.shows("order:11x", "Nobody holds this lock.")
	b.press(escape)
	b.shows("0 found") // the list is as it was
	b.press(escape)
	b.shows("123 in all")
	b.press(down, "j", "k", enter)
	b.until(`document.querySelector("h1").textContent === "bin\\x00\\xff"`)
	b.shows("held · plain", "Nobody waits here.")
	b.press(escape)
	b.shows("123 in all")
	b.until(`parseFloat(document.querySelector(".ttl .left").style.width) > 0`)

	l.brokenByHand(b, holder, waits)
	l.killedByHand(b, named)

	b.look(360, 740, "dark")
	for _, page := range []string{"overview", "holds", "clients", "events"} {
		b.eval(fmt.Sprintf("location.hash = '#/%s'", page))
		b.until(fmt.Sprintf(`document.querySelector("h1").textContent.toLowerCase() === %q`, page))
		b.until(`document.querySelector("tbody tr") !== null`)
		b.fits()
	}
	b.wellBehaved()
}

// brokenByHand breaks the lock that somebody waits for.
func (l *consoleLeash) brokenByHand(b *browser, holder *redistest.Client, waits <-chan string) {
	l.t.Helper()
	b.click("Waiters")
	b.until(`document.querySelector("th:last-child").ariaSort === "ascending"`)
	b.click("Waiters")
	b.until(`document.querySelector("th:last-child").ariaSort === "descending"`)
	b.click("report:nightly")
	b.shows("nightly:7", "nightly:8", "1 wait here", "change the token")
	if strings.Contains(b.text(), "Break this lock") {
		l.t.Error("a token for reading has the button")
	}
	b.click("Change token")
	b.signIn("write")
	b.click("Break this lock")
	b.until(`document.querySelector("dialog").innerText.includes("nightly:7")`)
	b.click("Cancel")
	b.click("Break this lock")
	b.click("Break the lock")
	b.shows("Its holder was told.")
	b.click("Close")
	if got := <-waits; got[0] != ':' {
		l.t.Errorf("the waiter got %q", got)
	}
	b.shows("nightly:8", "lost: broken")
	if got, err := holder.Do("LOCK.TTL", "order:001", "OWNER", "shop"); err != nil || got[0] != ':' || got[1] == '-' {
		l.t.Errorf("another lock: got %q, %v", got, err)
	}
}

// killedByHand ends the connection that has all orders.
func (l *consoleLeash) killedByHand(b *browser, _ *redistest.Client) {
	l.t.Helper()
	b.click("Clients")
	b.shows("in all", "lock.acquire")
	b.do(chromedp.Click(`//tr[td[normalize-space(.)="121"]]/td[1]`, chromedp.NodeVisible))
	b.shows("Its locks run out")
	b.click("Kill the client")
	b.shows("The connection is closed.")
	b.click("Close")
	b.click("Events")
	b.shows("expiring", "order:119")
}

// TestConsolePictures writes pictures of the console, for docs/ and to look at. It needs the flag
// -screenshots.
func TestConsolePictures(t *testing.T) {
	if *screenshots == "" {
		t.Skip("writes pictures only")
	}
	l := startConsole(t)
	b := browse(t, l.url)
	b.signIn("write")
	b.shows("answers")
	l.pictures(b, "none")
	holder := l.dial()
	if _, err := holder.Do("CLIENT", "SETNAME", "shop-1"); err != nil {
		t.Fatal(err)
	}
	l.acquire(holder, "order:42", "OWNER", "shop:7")
	l.acquire(holder, "report:nightly", "OWNER", "cron", "LEASE", "90000")
	l.acquire(holder, "bin\x00\xff\x1b[31m<b>\u202eevil", "OWNER", "shop:7")
	l.acquire(holder, strings.Repeat("a-very-long-key/", 40), "READ")
	l.acquire(holder, "inventory", "WRITE", "OWNER", "warehouse-service:eu-west-1:worker-12")
	for i := range 3 {
		waiter := l.dial()
		go waiter.Do("LOCK.ACQUIRE", "order:42", "BLOCK", "0", "OWNER", fmt.Sprintf("shop:%d", i+8))
	}
	l.pictures(b, "few")
	for i := range 100_000 {
		l.acquire(holder, fmt.Sprintf("order:%06d", i), "OWNER", fmt.Sprintf("shop:%d", i%50))
	}
	l.pictures(b, "many")
}

// pictures shows each page, wide and narrow, light and dark.
func (l *consoleLeash) pictures(b *browser, name string) {
	l.t.Helper()
	for _, page := range []string{"overview", "holds", "clients", "events", "lock?key=order%3A42"} {
		b.eval(fmt.Sprintf("location.hash = '#/%s'", page))
		b.do(chromedp.Sleep(4500 * time.Millisecond)) // for rates, which need two figures
		page, _, _ = strings.Cut(page, "?")
		for _, scheme := range []string{"light", "dark"} {
			b.look(1280, 800, scheme)
			b.picture(name + "-" + page + "-" + scheme)
			b.look(360, 740, scheme)
			b.picture(name + "-" + page + "-" + scheme + "-phone")
		}
	}
}
