package restore_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/renewal"
)

// nobody is a connection that is told nothing, and a Leash that follows no change.
type nobody struct{}

func (nobody) End([]byte, string)                       {}
func (nobody) Watch(hold.Attention)                     {}
func (nobody) Push([]byte) bool                         { return false }
func (nobody) SilentSince() time.Time                   { return time.Time{} }
func (nobody) Lost(*hold.Hold, string)                  {}
func (nobody) Follow([]hold.Change) (r <-chan struct{}) { return nil }
func (nobody) Spawn(func()) bool                        { return false }

// An owner moves his hold from one connection to another, as LOCK.ATTACH does. Redis then has the
// other carrier.
func ExampleRestorer_NewMove() {
	server, err := redistest.Launch(redistest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	links, end, err := linktest.Dial(server.Addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	r := &restore.Restorer{Redis: script.New(links)}
	r.Redis.Timeout = 10 * time.Second
	r.Holds = hold.NewRegistry(hold.Config{
		Leash: "fdbefea6", TTL: 30 * time.Second, Watchdog: renewal.New(r), Service: nobody{},
		Log: slog.New(slog.DiscardHandler),
	})
	var a, b hold.Carrier
	a.Init(r.Holds, 1, hold.Client{Name: "127.0.0.1:5000"}, nobody{}, nobody{})
	b.Init(r.Holds, 2, hold.Client{Name: "127.0.0.1:5001"}, nobody{}, nobody{})

	lock, until := script.Lock{Key: "order:42"}, r.Redis.Deadline()
	granted, _, err := r.Redis.Acquire(&script.Acquisition{}, &script.AcquireArgs{
		Lock: lock, Mode: script.Plain, Grant: script.GrantTerms{
			Owner: "me", Carrier: a.Name, Request: 1, TTL: 30 * time.Second, Client: a.Client().Name,
			Options: script.Terms{}.OptionLetters(), Ext: script.Terms{}.Ext(),
		},
	}, until)
	h := hold.New(&a, &hold.Grant{
		Key: lock.Key, Mode: script.Plain, Owner: "me", Token: granted.Token, TTL: 30 * time.Second,
	})
	safe := []time.Time{renewal.Until(granted.Sent, granted.Left)}
	fmt.Println(a.Attach(context.Background(), []*hold.Hold{h}, "", safe), err)

	m := r.NewMove(&b, script.MoveArgs{
		Mode: script.Plain, Owner: "me", From: h.Ref(), Request: 1, Keep: 30 * time.Second,
	})
	defer m.Unlock()
	moved, err := m.Send(until)
	fmt.Println(moved.Moved, h.State() == hold.Over, err)
	_, now, _, _ := r.Seek(lock, hold.Selector{Owner: "me"}, until)
	fmt.Println(now.Record.Carrier == b.Name, now.Record.Token == granted.Token)
	// Output:
	// true <nil>
	// true true <nil>
	// true true
}
