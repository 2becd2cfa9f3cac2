package program

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var screenshots = flag.String("screenshots", "", "directory for pictures of the console, as in docs/; empty: none")

// browser is a page in a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	notes    sync.WaitGroup // goroutines that note problems until ctx ends
	mu       sync.Mutex
	problems []string // errors of its scripts and of its policy
}

// chromium returns the browser of this machine. Without one, it skips the test, except where CI is
// set.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium to test the console with")
	}
	t.Skip("SKIPPED: there is no Chromium, so the console is not tested: apt-get install chromium")
	return ""
}

// browse opens a page until the test ends.
func browse(t *testing.T, url string) *browser {
	t.Helper()
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(busy))...)
	ctx, closePage := chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() { closePage(); end(); b.notes.Wait() })
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil { // starts the browser
		t.Fatal(err)
	}
	entries, exceptions := chromedp.Events(ctx, log.EntryAdded), chromedp.Events(ctx, runtime.ExceptionThrown)
	b.notes.Go(func() {
		for e, err := range entries {
			// a refused token is no error of the page
			if err == nil && e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "401") {
				b.note(e.Entry.Text)
			}
		}
	})
	b.notes.Go(func() {
		for e, err := range exceptions {
			if err == nil {
				b.note(fmt.Sprintf("%+v", e.ExceptionDetails))
			}
		}
	})
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	}), chromedp.Navigate(url))
	return b
}

// busy is how long a busy machine may take for anything.
const busy = 120 * time.Second

// note keeps what the page must not have.
func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, busy)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
}

// valueOf runs an action and returns its value.
func valueOf[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, busy)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("browser: %v", err)
	}
	return value
}

// eval returns the value of an expression of JavaScript as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	return valueOf(b, chromedp.Evaluate[string]("String("+expression+")"))
}

// text is what the page shows.
func (b *browser) text() string { return b.eval("document.body.innerText") }

// shows waits until the page shows all texts.
func (b *browser) shows(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
	}
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(busy); b.eval(expression) != "true"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not true: %s; the page shows:\n%s", expression, b.text())
		}
	}
}

// press presses keys, without a field that has the focus.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// click clicks on the visible link or button with that text.
func (b *browser) click(text string) {
	b.t.Helper()
	path := fmt.Sprintf(`//*[self::a or self::button][normalize-space(.)=%q]`, text)
	b.do(chromedp.Click(path, chromedp.NodeVisible))
}

// signIn gives a token to the dialog.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.until(`document.querySelector("dialog[open] input") !== null`)
	b.do(chromedp.SetValue(chromedp.CSS("dialog input"), token))
	b.click("Use it")
}

// fits checks that nothing is wider than the window.
func (b *browser) fits() {
	b.t.Helper()
	if got := b.eval("document.documentElement.scrollWidth <= innerWidth"); got != "true" {
		b.t.Errorf("%s is %s wide in a window of %s", b.eval("location.hash"),
			b.eval("document.documentElement.scrollWidth"), b.eval("innerWidth"))
	}
}

// wellBehaved checks that no script failed and that nothing was against the policy.
func (b *browser) wellBehaved() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.t.Errorf("the page: %s", problem)
	}
}

// look makes the window so wide, light or dark.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(
		func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
}

// picture writes a picture of the window, if the flag asks for it.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png := valueOf(b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Keys with a name.
const (
	enter  = kb.Enter
	escape = kb.Escape
	down   = kb.ArrowDown
)
