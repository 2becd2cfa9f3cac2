package script_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/embedded"
	"leash/internal/linktest"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// A Client calls each script by a function with typed arguments.
func ExampleClient() {
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

	latch, until := script.Lock{Key: "started"}, time.Now().Add(c.Timeout)
	set, err := c.SetLatch(transport.Connection{}, latch, 2, until)
	fmt.Println(set, err)
	left, err := c.CountDown(transport.Connection{}, latch, until)
	fmt.Println(left, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}
