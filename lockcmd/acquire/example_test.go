package acquire

import (
	"context"
	"fmt"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// One connection has a lock, and another one waits for it. The release of the lock grants it to the
// waiter. A third connection does not wait.
func Example() {
	server, err := redistest.Launch(redistest.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	l := newLeash(server.Addr, 20*time.Second)
	defer l.close()
	a, b, c := l.connect(), l.connect(), l.connect()
	opts := Options{Lock: script.Lock{Key: "order:42"}, Mode: script.Plain, TTL: 30 * time.Second}
	first := a.Acquire(context.Background(), opts)
	fmt.Println(first.Kind == Granted, first.Err)

	waits, reply := opts, make(chan Result)
	waits.Wait, waits.Block = true, time.Minute
	go func() { reply <- b.Acquire(context.Background(), waits) }()
	for !l.Waits.Rests(wait.QueueOf(opts.Lock, opts.Mode)) {
		time.Sleep(time.Millisecond)
	}
	h := a.Newest(opts.Lock, func(*hold.Hold) bool { return true })
	code, _, err := l.Release(h, true, l.Redis.Deadline())
	fmt.Println(code == script.HoldEnded, err)
	second := <-reply
	fmt.Println(second.Kind == Granted, second.Token > first.Token, l.Waits.Handovers.Load())

	fmt.Println(c.Acquire(context.Background(), opts).Kind == Taken)
	// Output:
	// true <nil>
	// true <nil>
	// true true 1
	// true
}
