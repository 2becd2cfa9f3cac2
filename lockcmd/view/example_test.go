package view_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/view"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// leash is a Leash on which nobody waits, and its only client. It tells the Recorder of losses.
type leash struct{ *view.Recorder }

func (leash) Follow([]hold.Change) (r <-chan struct{})                            { return nil }
func (leash) Spawn(func()) bool                                                   { return false }
func (leash) Node(int, int) string                                                { return "" }
func (leash) Renew(context.Context, string, []renewal.Batch, [][]renewal.Outcome) {}
func (leash) End([]byte, string)                                                  {}
func (leash) Watch(hold.Attention)                                                {}
func (leash) Push([]byte) bool                                                    { return false }
func (leash) SilentSince() time.Time                                              { return time.Time{} }

// printing prints what it is told.
type printing struct{}

func (printing) Watches() bool { return true }

func (printing) Observe(c view.Change) { fmt.Println(c.Kind, c.Key) }

// A client gets three locks and loses one of them. The others are listed, the newest first.
func Example() {
	l := leash{view.NewRecorder(slog.New(slog.DiscardHandler))}
	l.AddObserver(printing{})
	holds := hold.NewRegistry(hold.Config{
		Leash: "fdbefea6", TTL: 30 * time.Second, Watchdog: renewal.New(l), Service: l,
		Log: slog.New(slog.DiscardHandler),
	})
	v := view.New(&acquire.Acquirer{
		Releaser: &release.Releaser{Restorer: &restore.Restorer{Holds: holds}},
		Waits:    &acquire.Waiters{Machine: wait.New[acquire.Result](wait.Config{})},
	}, l.Recorder)
	var c hold.Carrier
	c.Init(holds, 1, hold.Client{Name: "127.0.0.1:5000"}, l, l)
	safe := time.Now().Add(30 * time.Second)
	for i, key := range []string{"order:42", "order:43", "order:44"} {
		h := hold.New(&c, &hold.Grant{
			Key: key, Mode: script.Plain, Owner: "me", Token: int64(i + 1), TTL: 30 * time.Second, Since: safe,
		})
		c.Attach(context.Background(), []*hold.Hold{h}, "", []time.Time{safe})
		l.Granted(h, 0)
	}
	ref := script.Ref{Lock: script.Lock{Key: "order:43"}, Token: 2, Carrier: c.Name}
	holds.FindRef(ref).Lost(renewal.ReasonGone)
	list := v.SearchHolds(view.Search{Text: "order", By: view.ByGrant, Reverse: true, Count: 10})
	for _, h := range list.Holds {
		fmt.Println(h.Key, h.Mode, h.Owner, h.Client)
	}
	fmt.Println(list.Found, v.Stats().Holds, v.Stats().Losses[renewal.ReasonGone])
	// Output:
	// granted order:42
	// granted order:43
	// granted order:44
	// lost order:43
	// order:44 plain me 127.0.0.1:5000
	// order:42 plain me 127.0.0.1:5000
	// 2 2 1
}
