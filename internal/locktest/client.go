package locktest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/lockcmd"
	"leash/lockcmd/script"
)

// LastConn is the ID of the last connection that a test made.
var LastConn atomic.Int64

// TestClientName is the name of a test's client.
const TestClientName = "127.0.0.1:5000 test"

// Client is a client connection as tests use it. It implements Host.
type Client struct {
	T       testing.TB
	Service *lockcmd.Service
	Carrier *lockcmd.Carrier
	Ctx     context.Context
	Gone    context.CancelFunc
	Waits   atomic.Int64
	Guarded atomic.Bool
	Losses  chan string // "key reason"
	Moved   chan string // keys
	Pushes  chan string // "word key token", for RESP3 only
	Resp3   bool
	Silence atomic.Pointer[time.Time] // since when the client is silent; nil if it is not
}

// Connect connects a client to a Leash.
func Connect(t testing.TB, s *lockcmd.Service) *Client {
	c := &Client{T: t, Service: s, Losses: make(chan string, 1000), Moved: make(chan string, 1000),
		Pushes: make(chan string, 1000)}
	c.Ctx, c.Gone = context.WithCancel(context.Background())
	c.Carrier = s.NewCarrier(LastConn.Add(1), lockcmd.Client{Name: TestClientName}, c, c)
	return c
}

// LockOf is the lock of key in database 0.
func LockOf(key string) script.Lock { return script.Lock{Key: key} }

// Do runs a command and returns its reply without the last line end.
func (c *Client) Do(args ...string) string {
	c.T.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	defer c.Carrier.Answered()
	return strings.TrimSuffix(string(c.Carrier.Do(c.Ctx, nil, raw)), "\r\n")
}

// Start runs a command in the background.
func (c *Client) Start(args ...string) <-chan string {
	reply := make(chan string, 1)
	go func() { reply <- c.Do(args...) }()
	return reply
}

// End implements Host.
func (c *Client) End(key []byte, reason string) {
	if reason == lockcmd.ReasonMoved {
		c.Moved <- string(key)
		return
	}
	c.Losses <- string(key) + " " + reason
}

// Watch implements Host.
func (c *Client) Watch(a lockcmd.Attention) {
	if a == lockcmd.Waiting {
		c.Waits.Add(1)
		return
	}
	c.Guarded.Store(a == lockcmd.Guarded)
}

// SilentSince implements Host.
func (c *Client) SilentSince() time.Time {
	if at := c.Silence.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// GoSilent makes the client silent from now on.
func (c *Client) GoSilent() {
	now := time.Now()
	c.Silence.Store(&now)
}

// Speak ends what GoSilent began.
func (c *Client) Speak() { c.Silence.Store(nil) }

// Push implements Host. It stores the words of a notice without their lengths.
func (c *Client) Push(frame []byte) bool {
	if len(frame) == 0 {
		return c.Resp3
	}
	lines := strings.Split(string(frame), "\r\n")
	if lines[0] != "*4" || lines[2] != "lock" {
		c.T.Errorf("pushed %q", frame)
		return false
	}
	c.Pushes <- lines[4] + " " + lines[6] + " " + strings.TrimPrefix(strings.Join(lines[7:len(lines)-1], " "), ":")
	return true
}
