// The shop that oversells: ten customers want a piece of which five are left. Each of them runs on
// a server of its own, which reads the stock, takes the money and writes the stock back.
//
//	go run ./examples/oversell
//
// It does that three times: without a lock, with SET NX EX, and with a lock of Leash. It needs a
// Leash at 127.0.0.1:6380 (go run .) or at the address in LEASH_SERVER.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pieces    = 5
	customers = 10
	payment   = 50 * time.Millisecond
	// One payment takes longer than anybody had thought, and longer than the lock lives that
	// SET NX EX takes. It may be a slow bank, a pause of the garbage collector, a full disk.
	slowPayment = 1500 * time.Millisecond
	lockTime    = 500 * time.Millisecond
)

// customer is one of those who want a piece. pay takes the customer's money.
type customer struct {
	conn *redis.Conn
	pay  func()
}

// sell lets one customer buy.
type sell func(ctx context.Context, c customer) (sold bool, err error)

func main() {
	leash := cmp.Or(os.Getenv("LEASH_SERVER"), "127.0.0.1:6380")
	for _, way := range []struct {
		name string
		sell sell
	}{
		{"without a lock", buy},
		{"with SET NX PX", buyWithSetNX},
		{"with Leash", buyWithLeash},
	} {
		sold, err := open(leash, way.sell)
		if err != nil {
			fmt.Fprintln(os.Stderr, "oversell:", err)
			os.Exit(1)
		}
		verdict := "as it should be"
		if sold > pieces {
			verdict = fmt.Sprintf("%d paid for nothing", sold-pieces)
		}
		fmt.Printf("%-15s %d pieces, %d sold: %s\n", way.name+":", pieces, sold, verdict)
	}
}

// open fills the shop, lets the customers in and returns how many of them paid.
func open(leash string, sell sell) (sold int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// A request is sent once, and waits for as long as ctx allows.
	rdb := redis.NewClient(&redis.Options{Addr: leash, MaxRetries: -1, ReadTimeout: -1, ContextTimeoutEnabled: true,
		PoolSize: customers + 1})
	defer rdb.Close()
	if err := rdb.Set(ctx, "stock", pieces, 0).Err(); err != nil {
		return 0, err
	}
	var count atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, customers)
	var first sync.Once
	pay := func() {
		first.Do(func() { time.Sleep(slowPayment - payment) })
		time.Sleep(payment)
	}
	for i := range customers {
		all.Go(func() {
			c := rdb.Conn() // the lock, the work and the release share this connection
			defer c.Close()
			ok, err := sell(ctx, customer{c, pay})
			if errs[i] = err; ok {
				count.Add(1)
			}
		})
	}
	all.Wait()
	return count.Load(), errors.Join(errs...)
}

// buy is what every shop does.
func buy(ctx context.Context, c customer) (sold bool, err error) {
	stock, err := c.conn.Get(ctx, "stock").Int()
	if err != nil || stock == 0 {
		return false, err
	}
	c.pay()
	return true, c.conn.Set(ctx, "stock", stock-1, 0).Err()
}

// buyWithSetNX takes a lock that ends after a fixed time, whether the work is done or not.
func buyWithSetNX(ctx context.Context, c customer) (sold bool, err error) {
	for {
		ok, err := c.conn.SetNX(ctx, "lock:setnx", "me", lockTime).Result()
		if err != nil {
			return false, err
		}
		if ok {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	defer c.conn.Del(context.WithoutCancel(ctx), "lock:setnx")
	return buy(ctx, c)
}

// buyWithLeash takes a lock that ends with the connection. Leash renews it until then.
func buyWithLeash(ctx context.Context, c customer) (sold bool, err error) {
	if err := c.conn.Do(ctx, "LOCK.ACQUIRE", "stock:lock", "BLOCK", 0).Err(); err != nil {
		return false, err
	}
	defer c.conn.Do(context.WithoutCancel(ctx), "LOCK.RELEASE", "stock:lock")
	return buy(ctx, c)
}
