package limits

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// sizeOf reads sizes such as 2M.
func sizeOf(text string) (int64, error) {
	digits, ok := strings.CutSuffix(text, "M")
	if !ok {
		return 0, errors.New("no size")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n << 20, err
}

func TestParse(t *testing.T) {
	got, err := Parse([]string{"clients=5", "commands=100", "output=2M"}, sizeOf)
	if want := (Limits{Clients: 5, Commands: 100, Output: 2 << 20}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"cats=5": `unknown kind "cats"`, "clients": "has no number", "clients=0": "has no number", "holds=x": "has no number",
		"holds=2000000000": "from 1 to 1000000000", "output=2": "has no size of 1MiB or more", "output=0M": "has no size",
	} {
		if _, err := Parse([]string{text}, sizeOf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestUsersAreApart checks that each user has limits of its own, and that nothing is left of a user
// whose last client has left.
func TestUsersAreApart(t *testing.T) {
	users := New(Limits{Clients: 2, Holds: 3})
	a, _ := users.Enter("a")
	again, ok := users.Enter("a")
	if !ok || a != again {
		t.Fatal("the second client is not of the same user")
	}
	if _, ok := users.Enter("a"); ok {
		t.Error("a third client was let in")
	}
	b, ok := users.Enter("b")
	if !ok || !a.Take(Holds, 3) || a.Take(Holds, 1) || !b.Take(Holds, 1) || b.HasRoom(Holds, 3) || !b.HasRoom(Holds, 2) {
		t.Error("the users are not apart")
	}
	if !a.Take(Waiters, 1000) {
		t.Error("a kind without a limit was refused")
	}
	a.Add(Holds, -1)
	if !a.Take(Holds, 1) {
		t.Error("what was given back is not there")
	}
	if got := users.Refused(); got["clients"] != 1 || got["holds"] != 2 || got["waiters"] != 0 {
		t.Errorf("refused: %v", got)
	}
	a.Leave()
	again.Leave()
	b.Leave()
	if len(users.here) != 0 {
		t.Errorf("left: %v", users.here)
	}
}

func TestNilHasNoLimits(t *testing.T) {
	users := New(Limits{})
	one, ok := users.Enter("a")
	if users != nil || one != nil || !ok || !one.Take(Holds, 1) || !one.HasRoom(Holds, 1) || one.Limits(Commands) {
		t.Error("nil has limits")
	}
	one.Add(Holds, 1)
	one.Leave()
	if users.Refused()["holds"] != 0 || users.Delayed() != 0 {
		t.Error("nil has counts")
	}
}

// TestBucket checks the times of a bucket of 1000 a second, on a clock of the test.
func TestBucket(t *testing.T) {
	b := NewBucket(1000)
	now := b.began
	taken := 0
	for range 100 { // the tokens of a second are there at once
		n, wait, ok := b.Take(now)
		if n != 10 || wait != 0 || !ok {
			t.Fatalf("got %d, %s, %v", n, wait, ok)
		}
		taken += n
	}
	for i := range 100 { // later ones have to wait, in order
		n, wait, ok := b.Take(now)
		if want := time.Duration(i+1) * 10 * time.Millisecond; n != 10 || wait != want || !ok {
			t.Fatalf("got %d, %s, %v; want %s", n, wait, ok, want)
		}
	}
	if _, _, ok := b.Take(now); ok {
		t.Error("a wait above a second was not refused")
	}
	if _, wait, ok := b.Take(now.Add(time.Second)); !ok || wait != 10*time.Millisecond {
		t.Errorf("a second later: %s, %v", wait, ok)
	}
	if _, wait, _ := b.Take(now.Add(time.Hour)); wait != 0 {
		t.Errorf("an hour later: %s", wait)
	}
	if wait, ok := NewBucket(1).TakeOne(now.Add(time.Minute)); wait != 0 || !ok {
		t.Errorf("one a second: %s, %v", wait, ok)
	}
}

// TestBucketTogether checks that concurrent callers get no more together than one caller.
func TestBucketTogether(t *testing.T) {
	b := NewBucket(100000)
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 8 {
		all.Go(func() {
			for {
				n, wait, ok := b.Take(b.began)
				if wait > 0 || !ok {
					return
				}
				mu.Lock()
				taken += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if taken != 100000 {
		t.Errorf("got %d tokens of 100000", taken)
	}
}

func TestHolds(t *testing.T) {
	all, err := ParseHolds([]string{"a*=1s", "*=10s", "x=y=500ms"})
	if err != nil {
		t.Fatal(err)
	}
	match := func(pattern, name string) bool {
		prefix, star := strings.CutSuffix(pattern, "*")
		return pattern == name || star && strings.HasPrefix(name, prefix)
	}
	for name, want := range map[string]time.Duration{"abc": time.Second, "b": 10 * time.Second, "x=y": 500 * time.Millisecond} {
		if got := MaxHold(all, name, match); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := MaxHold(all[:1], "b", match); got != 0 {
		t.Errorf("got %s for a name without a pattern", got)
	}
	for _, text := range []string{"a*", "=1s", "a=1", "a=1ms", "a=-1s", "a="} {
		if _, err := ParseHolds([]string{text}); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// TestNameHolds checks that each pattern counts the names that it matches, and no others.
func TestNameHolds(t *testing.T) {
	match := func(pattern, name string) bool { ok, _ := path.Match(pattern, name); return ok }
	l, err := ParseNameHolds([]string{"order:*=2", "*=5"}, match)
	if err != nil {
		t.Fatal(err)
	}
	full := func(want string, n int64, names ...string) {
		t.Helper()
		if got := l.Full(names, n); got != want {
			t.Errorf("%d of %v: got %q, want %q", n, names, got, want)
		}
	}
	full("", 1, "order:1", "order:2")
	full("order:*", 1, "order:1", "order:2", "order:3")
	full("order:*", 3, "order:1")
	l.Add("order:1", 1)
	l.Add("order:1", 1)
	full("order:*", 1, "other", "order:2")
	full("", 3, "other")
	full("*", 4, "other")
	l.Add("order:1", -1)
	full("", 1, "order:2")
	for _, text := range []string{"order:*", "order:*=0", "order:*=30s", "=3", "order:*=2000000000"} {
		if _, err := ParseNameHolds([]string{text}, match); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
