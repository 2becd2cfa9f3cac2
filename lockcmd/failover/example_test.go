package failover_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/failover"
	"leash/lockcmd/script"
	"leash/renewal"
)

// A server that has just started may have forgotten locks. It grants none during its grace period.
func ExampleMasters() {
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

	m := failover.New(failover.Config{
		Grace: time.Hour, Redis: script.New(links), Watchdog: renewal.New(nil), Log: slog.New(slog.DiscardHandler),
	})
	m.ProbeAll(time.Now(), time.Now().Add(10*time.Second))
	masters, left := m.Active()
	fmt.Println(masters, left.Round(time.Minute), m.GrantingMaster("order:42"))

	failover.Rehearsal{Masters: m}.EndAll(time.Now().Add(10 * time.Second))
	master, _ := m.MasterOf("order:42", time.Time{}, time.Now().Add(10*time.Second))
	fmt.Println(m.Left("order:42"), m.GrantingMaster("order:42") == master.ReplID)
	// Output:
	// 1 1h0m0s -
	// 0s true
}
