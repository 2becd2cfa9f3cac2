package hold_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// printing prints what a Leash would do. It is the Redis of the watchdog, too.
type printing struct{}

func (printing) Lost(h *hold.Hold, reason string) { fmt.Println("log:", h.Key(), "was lost,", reason) }

func (printing) Follow(changes []hold.Change) <-chan struct{} {
	for _, ch := range changes {
		if ch.Has(hold.StartRelease) {
			fmt.Println("release", ch.Hold.Key())
		}
	}
	return nil
}

func (printing) Spawn(f func()) bool { f(); return true }

func (printing) Node(int, int) string { return "" }

func (printing) Renew(context.Context, string, []renewal.Batch, [][]renewal.Outcome) {}

// client is a connection.
type client struct{}

func (client) End(key []byte, reason string) {
	fmt.Printf("close the connection: %s %s\n", key, reason)
}

func (client) Watch(hold.Attention) {}

func (client) Push([]byte) bool { return false }

func (client) SilentSince() time.Time { return time.Time{} }

// A client has two locks. It loses one of them, and its connection ends.
func Example() {
	leash := hold.NewRegistry(hold.Config{
		Leash: "fdbefea6", TTL: 30 * time.Second, Watchdog: renewal.New(printing{}), Service: printing{},
		Log: slog.New(slog.DiscardHandler),
	})
	var c hold.Carrier
	c.Init(leash, 1, hold.Client{Name: "127.0.0.1:5000"}, client{}, client{})
	safe := time.Now().Add(30 * time.Second)
	for i, key := range []string{"order:42", "order:43"} {
		h := hold.New(&c, &hold.Grant{
			Key: key, Mode: script.Plain, Owner: "me", Token: int64(i + 1), TTL: 30 * time.Second,
		})
		fmt.Println(h.Key(), c.Attach(context.Background(), []*hold.Hold{h}, "", []time.Time{safe}))
	}
	leash.FindRef(script.Ref{Lock: script.Lock{Key: "order:42"}, Token: 1, Carrier: c.Name}).Lost(renewal.ReasonGone)
	fmt.Println(c.Holds(), "hold is left")
	c.End(hold.Release)
	// Output:
	// order:42 true
	// order:43 true
	// close the connection: order:42 gone
	// log: order:42 was lost, gone
	// 1 hold is left
	// release order:43
}
