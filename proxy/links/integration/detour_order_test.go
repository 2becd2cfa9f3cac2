package links_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestOrderHoldsWhileWritesArePaused checks that each client reads its own last write while pauses
// of writes and slow scripts come and go, whichever link the command uses.
func TestOrderHoldsWhileWritesArePaused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "20")
	l := proxytest.Start(t, []string{server.Addr})
	admin, script := proxytest.Dial(t, server.Addr), l.Dial(t)
	var over atomic.Bool
	const clients = 8
	ended := make(chan error, clients)
	for i := range clients {
		c := l.Dial(t)
		go func() { ended <- readOwnWrites(c, fmt.Sprintf("k%d", i), &over) }()
	}
	for range 12 {
		admin.Want(t, "+OK\r\n", "CLIENT", "PAUSE", "130", "WRITE")
		time.Sleep(160 * time.Millisecond) // the pause is what is tested
		if err := script.Send(redistest.Command("EVAL", "while true do end", "0")); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "the script is killed", func() bool { return admin.Reply(t, "SCRIPT", "KILL") == "+OK\r\n" })
		if _, err := script.Read(); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	for range clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// readOwnWrites sends pipelines of writes and reads of one key until over is set. Nobody else
// writes the key. A command that got BUSY has not run.
func readOwnWrites(c *redistest.Client, key string, over *atomic.Bool) error {
	stored, next := "", 0
	for !over.Load() {
		var pipeline []string
		var request strings.Builder
		for range 1 + rand.IntN(6) {
			value := ""
			args := []string{"GET", key}
			if rand.IntN(4) == 0 {
				next++
				value = fmt.Sprint(next)
				args = []string{"SET", key, value}
			}
			pipeline = append(pipeline, value)
			request.WriteString(redistest.Command(args...))
		}
		if err := c.Send(request.String()); err != nil {
			return err
		}
		for _, value := range pipeline {
			reply, err := c.Read()
			if err != nil {
				return err
			}
			wanted := "$-1\r\n"
			if stored != "" {
				wanted = fmt.Sprintf("$%d\r\n%s\r\n", len(stored), stored)
			}
			switch {
			case strings.HasPrefix(reply, "-BUSY "):
			case value != "" && reply == "+OK\r\n":
				stored = value
			case value != "" || reply != wanted:
				return fmt.Errorf("%s: got %q behind SET %q; want %q", key, reply, value, wanted)
			}
		}
	}
	return nil
}
