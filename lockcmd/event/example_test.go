package event_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/embedded"
	"leash/internal/linktest"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// elsewhere says that this Leash has no holds and that no master is new.
type elsewhere struct{}

func (elsewhere) Watch(script.Lock, int64) (script.Hold, <-chan string, func()) {
	return script.Hold{}, nil, nil
}

func (elsewhere) GraceLeft(string) time.Duration { return 0 }

// A LossWait finds out how a hold of another Leash has ended, by the tombstone in Redis.
func ExampleLossWait() {
	server, err := embedded.Start(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, MaxRetries: -1,
		ContextTimeoutEnabled: true})
	defer rdb.Close()
	links, end, err := linktest.Dial(server.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	c := script.New(links)
	c.Timeout, c.Publish = 10*time.Second, "ps"

	lock := script.Lock{Key: "order:42"}
	seen := script.Hold{Mode: script.Plain, Owner: "me", Record: script.Record{Token: 7, Carrier: "another-leash:1.1"}}
	ref := script.Ref{Lock: lock, Token: 7, Carrier: "another-leash:1.1"}
	event.WriteTombstone(c, ref, event.Lost+" maxhold", time.Minute, "")

	w := &event.LossWait{Redis: c, Holds: elsewhere{}, Lock: lock, Token: 7, Interval: time.Second, Seen: &seen}
	fmt.Println(w.Run(context.Background()))
	// Output: maxhold <nil>
}
