package release_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// nobody is a connection that is told nothing, and a Leash on which nobody waits.
type nobody struct{}

func (nobody) End([]byte, string)                       {}
func (nobody) Watch(hold.Attention)                     {}
func (nobody) Push([]byte) bool                         { return false }
func (nobody) SilentSince() time.Time                   { return time.Time{} }
func (nobody) Lost(*hold.Hold, string)                  {}
func (nobody) Follow([]hold.Change) (r <-chan struct{}) { return nil }
func (nobody) Spawn(func()) bool                        { return false }
func (nobody) Entry(*script.Mode) string                { return "" }
func (nobody) Waiting(wait.QueueID) bool                { return false }
func (nobody) LeftTurns(wait.QueueID)                   {}

func (nobody) HandOver(*hold.Hold, script.EndArgs, time.Time) (o release.Handover, ok bool) {
	return o, false
}

// An owner has a lock through one Leash. It releases one count there, and the last one through
// another Leash.
func Example() {
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
	leash := func(name string) *release.Releaser {
		r := &release.Releaser{Restorer: &restore.Restorer{Redis: script.New(links)}, Waiters: nobody{},
			Tasks: nobody{}}
		r.Redis.Timeout = 10 * time.Second
		r.Holds = hold.NewRegistry(hold.Config{
			Leash: name, TTL: 30 * time.Second, Watchdog: renewal.New(r), Service: nobody{},
			Log: slog.New(slog.DiscardHandler),
		})
		return r
	}
	one, two := leash("fdbefea6"), leash("8ace5318")
	var c hold.Carrier
	c.Init(one.Holds, 1, hold.Client{Name: "127.0.0.1:5000"}, nobody{}, nobody{})

	lock, until := script.Lock{Key: "order:42"}, one.Redis.Deadline()
	args := script.AcquireArgs{Lock: lock, Mode: script.Plain, Grant: script.GrantTerms{
		Owner: "me", Carrier: c.Name, TTL: 30 * time.Second, Options: script.Terms{}.OptionLetters(),
		Ext: script.Terms{}.Ext(),
	}}
	for range 2 {
		args.Grant.Request = c.Requests.Add(1)
		got, _, err := one.Redis.Acquire(&script.Acquisition{}, &args, until)
		args.Token = got.Token
		fmt.Println(got.Outcome == script.AcquireGranted, err)
	}
	h := hold.New(&c, &hold.Grant{
		Key: lock.Key, Mode: script.Plain, Owner: "me", Token: args.Token, TTL: 30 * time.Second, Count: 2, Moved: true,
	})
	fmt.Println(c.Attach(context.Background(), []*hold.Hold{h}, "", []time.Time{time.Now().Add(30 * time.Second)}))

	code, lost, err := one.Release(h, false, until)
	fmt.Println(code == script.CountsRemain, lost == "", err)
	code, err = two.ReleaseAnywhere(lock, hold.Selector{Owner: "me"}, "", false, until)
	fmt.Println(code == script.HoldEnded, err)
	// Output:
	// true <nil>
	// true <nil>
	// true
	// true true <nil>
	// true <nil>
}
