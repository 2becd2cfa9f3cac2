// Peers takes and releases locks with Go libraries, for bench to measure. It is a module of its
// own, so that Leash does not depend on these libraries.
//
//	peers redsync 127.0.0.1:6379            one Redis
//	peers redislock cluster 127.0.0.1:7000  a cluster
//	peers go-redis 127.0.0.1:6380           Leash, by LOCK.ACQUIRE and LOCK.RELEASE
//
// It reads requests from standard input, one on each line, and ends at EOF:
//
//	run <clients> <warm-up ms> <round ms>
//
// lets that many goroutines take and release a lock of their own over and over. It says "begin"
// when the warm-up is over, "over" when the round is, and then
//
//	end <pairs> <elapsed ns> <p50 ns> <p99 ns>
//
// with the latency of a pair. The first error ends the program.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("give redsync, redislock or go-redis, perhaps cluster, and addresses")
	}
	open, ok := libraries[args[0]]
	if !ok {
		return fmt.Errorf("unknown library %q", args[0])
	}
	cluster, addrs := args[1] == "cluster", args[1:]
	if cluster {
		addrs = args[2:]
	}
	workers := map[int][]pair{} // by the number of clients: connections stay open between runs
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var n, warmup, round int
		if _, err := fmt.Sscanf(lines.Text(), "run %d %d %d", &n, &warmup, &round); err != nil {
			return fmt.Errorf("request %q: %w", lines.Text(), err)
		}
		if workers[n] == nil {
			workers[n] = open(connect(cluster, addrs, n), n)
		}
		if err := measure(workers[n], millis(warmup), millis(round)); err != nil {
			return err
		}
	}
	return nil
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// connect makes a client with room for n connections to each node.
func connect(cluster bool, addrs []string, n int) redis.UniversalClient {
	if cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, PoolSize: n, MinIdleConns: 0})
	}
	return redis.NewClient(&redis.Options{Addr: addrs[0], PoolSize: n})
}

// A pair takes a lock that is free and releases it.
type pair func(ctx context.Context) error

// measure lets all workers run, and prints.
func measure(workers []pair, warmup, round time.Duration) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var counting, over atomic.Bool
	latencies := make([][]time.Duration, len(workers))
	var wg sync.WaitGroup
	for i, work := range workers {
		wg.Go(func() {
			for !over.Load() {
				began := time.Now()
				if err := work(ctx); err != nil {
					cancel(err)
					return
				}
				if counting.Load() {
					latencies[i] = append(latencies[i], time.Since(began))
				}
			}
		})
	}
	pause(ctx, warmup)
	counting.Store(true)
	began := time.Now()
	fmt.Println("begin")
	pause(ctx, round)
	counting.Store(false)
	elapsed := time.Since(began)
	fmt.Println("over")
	over.Store(true)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return fmt.Errorf("no pair within %v", round)
	}
	slices.Sort(all)
	fmt.Println("end", len(all), elapsed.Nanoseconds(), all[len(all)/2].Nanoseconds(), all[len(all)*99/100].Nanoseconds())
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
