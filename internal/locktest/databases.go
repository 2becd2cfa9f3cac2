package locktest

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd"
)

// Databases returns clients for databases of the shared server, as package upstream does.
func Databases(t testing.TB) func(db int) redis.UniversalClient {
	var mu sync.Mutex
	clients := make(map[int]redis.UniversalClient)
	addr := redistest.SharedServer(t).Addr
	return func(db int) redis.UniversalClient {
		mu.Lock()
		defer mu.Unlock()
		if clients[db] == nil {
			opts := *DialServer(t, addr).Options()
			opts.DB = db
			c := redis.NewClient(&opts)
			t.Cleanup(func() { c.Close() })
			clients[db] = c
		}
		return clients[db]
	}
}

// ConnectTo connects a client that uses another database.
func ConnectTo(t testing.TB, s *lockcmd.Service, db int) *Client {
	c := Connect(t, s)
	c.Carrier.Select(db)
	return c
}
