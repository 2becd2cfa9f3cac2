package locktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Attach runs an ATTACH that must succeed.
func (c *Client) Attach(key, owner string, token int64) {
	c.T.Helper()
	Want(c.T, c.Do("LOCK.ATTACH", key, "OWNER", owner, "TOKEN", strconv.FormatInt(token, 10)),
		":"+strconv.FormatInt(token, 10))
}

// Ms runs a command whose reply must be a number of milliseconds, at most most and not much less.
func (c *Client) Ms(most int, args ...string) {
	c.T.Helper()
	reply := c.Do(args...)
	if n, err := strconv.Atoi(reply[1:]); err != nil || n > most || n < most*9/10-3000 {
		c.T.Fatalf("%v: got %q, want about %d", args, reply, most)
	}
}

// Token runs an ACQUIRE that must be granted and returns the token.
func (c *Client) Token(args ...string) int64 {
	c.T.Helper()
	return TokenOf(c.T, c.Do(append([]string{"LOCK.ACQUIRE"}, args...)...))
}

// TokenOf reads the reply of an ACQUIRE that must be granted.
func TokenOf(t testing.TB, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil || n < 1 || !strings.HasPrefix(reply, ":") {
		t.Fatalf("got reply %q, want a token", reply)
	}
	return n
}

// Hold acquires a lock in a mode.
func (c *Client) Hold(key, mode string, options ...string) (token int64) {
	c.T.Helper()
	args := append([]string{key}, options...)
	if mode != "" {
		args = append(args, mode)
	}
	return c.Token(args...)
}

// WantNotice checks the next notice.
func (c *Client) WantNotice(word, key string, token int64) {
	c.T.Helper()
	if got, want := Woken(c.T, c.Pushes), word+" "+key+" "+strconv.FormatInt(token, 10); got != want {
		c.T.Fatalf("told %q, want %q", got, want)
	}
}

// WantNoNotice fails if there is another notice.
func (c *Client) WantNoNotice() {
	c.T.Helper()
	select {
	case got := <-c.Pushes:
		c.T.Fatalf("told %q, want nothing", got)
	default:
	}
}

// AskUntilAnswered repeats a command with an ID until Redis answers in time.
func (c *Client) AskUntilAnswered(args ...string) (reply string) {
	c.T.Helper()
	Eventually(c.T, 5*time.Second, "Redis answers in time", func() bool {
		reply = c.Do(args...)
		return !strings.HasPrefix(reply, "-LOCKTIMEOUT ")
	})
	return reply
}

// Permit runs a SEM.ACQUIRE that must be granted one permit.
func (c *Client) Permit(args ...string) string {
	c.T.Helper()
	return PermitOf(c.T, c.Do(append([]string{"SEM.ACQUIRE"}, args...)...))
}

// Permits runs a SEM.ACQUIRE with COUNT that must be granted.
func (c *Client) Permits(n int, args ...string) []string {
	c.T.Helper()
	reply := c.Do(append([]string{"SEM.ACQUIRE"}, args...)...)
	f := strings.Split(reply, "\r\n")
	if f[0] != "*"+strconv.Itoa(n) || len(f) != 1+2*n {
		c.T.Fatalf("got reply %q, want %d permits", reply, n)
	}
	var permits []string
	for i := range n {
		permits = append(permits, f[2+2*i])
	}
	return permits
}

// AllOfAQuorum acquires keys with QUORUM and other options. It repeats that when a quorum has not
// waited for all keys.
func (c *Client) AllOfAQuorum(keys []string, options ...string) {
	c.T.Helper()
	Eventually(c.T, 5*time.Second, "the quorum has waited for all", func() bool {
		if !slices.Contains(TokensOf(c.T, c.Do(Several("LOCK.MACQUIRE", keys, options...)...), len(keys)), 0) {
			return true
		}
		c.Do(Several("LOCK.MRELEASE", keys)...)
		return false
	})
}

// SemaphoreInfo runs SEM.INFO.
func (c *Client) SemaphoreInfo(key string) (total, available, held, waiters int) {
	c.T.Helper()
	_, err := fmt.Sscanf(c.Do("SEM.INFO", key),
		"*8\r\n$5\r\ntotal\r\n:%d\r\n$9\r\navailable\r\n:%d\r\n$4\r\nheld\r\n:%d\r\n$7\r\nwaiters\r\n:%d",
		&total, &available, &held, &waiters)
	if err != nil {
		c.T.Fatalf("SEM.INFO: %q", c.Do("SEM.INFO", key))
	}
	return total, available, held, waiters
}

// WantSemaphoreInfo checks what SEM.INFO answers, without its waiters.
func (c *Client) WantSemaphoreInfo(key string, total, available, held int) {
	c.T.Helper()
	if t, a, h, _ := c.SemaphoreInfo(key); t != total || a != available || h != held {
		c.T.Fatalf("got total %d, available %d, held %d, want %d, %d, %d", t, a, h, total, available, held)
	}
}

// Twice acquires a key twice, the second time with ID 2.
func (c *Client) Twice(key string, options ...string) int64 {
	c.T.Helper()
	c.Token(append([]string{key, "OWNER", "x", "ID", "1"}, options...)...)
	return c.Token(append([]string{key, "OWNER", "x", "ID", "2"}, options...)...)
}
