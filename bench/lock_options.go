package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

// The rows of the tables of locks, in their order.
const (
	byScripts    = "scripts"
	byLeash      = "leash"
	byGoRedis    = "leash-go-redis"
	byRedsync    = "redsync"
	byRedislock  = "redislock"
	byRedisson   = "redisson"
	handOver     = "hand-over"
	handOverFar  = "hand-over-2"
	onRedis      = "redis"
	onCluster    = "cluster"
	farHold      = time.Millisecond
	uncounted    = 1 // rounds before those that count: Java's JIT compiler needs them
	handOverLock = "bench:hand-over"
)

var (
	allLockRows = []string{byScripts, byLeash, byGoRedis, byRedsync, byRedislock, byRedisson, handOver, handOverFar}
	allGrounds  = []string{onRedis, onCluster}
)

// lockOptions are the flags of "bench locks".
type lockOptions struct {
	options     // rounds, round, warmup, only, leash, leashFlags
	connections []int
	grounds     []string
	contenders  int
}

const lockUsage = `Bench locks compares the locks of Leash with its scripts sent to Redis directly, and with other libraries' locks.

A pair is taking a lock that nobody else wants, and releasing it. The rows:
  scripts         what Leash sends for it, recorded from it and sent by a client without Leash: 1.00 of itself
  leash           LOCK.ACQUIRE and LOCK.RELEASE by the same client; aim: 0.6 of the scripts
  leash-go-redis  the same, by goroutines with go-redis: its client CPU compares with the libraries'
  redsync, redislock, redisson
                  the libraries, to Redis directly, in a process of their own
  hand-over       one lock, --contenders wait for it on one Leash: from the sending of a release to the next grant's arrival
  hand-over-2     two contenders on two Leashes, who hold it for 1 ms: the next holder is always on the other one

Usage: go run ./bench locks [flags]

`

// parseLockOptions returns pflag.ErrHelp when it has printed the help to out.
func parseLockOptions(args []string, out io.Writer) (lockOptions, error) {
	opt := lockOptions{}
	fs := pflag.NewFlagSet("bench locks", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntSliceVar(&opt.connections, "connections", []int{1, 50, 500}, "`connections` that take locks at once, one measurement for each")
	fs.StringSliceVar(&opt.grounds, "upstream", allGrounds, "what to measure on: redis, cluster (of three masters)")
	fs.IntVar(&opt.contenders, "contenders", 10, "`clients` that want the same lock of one Leash")
	fs.IntVar(&opt.rounds, "rounds", 5, "measurements of each row; the table has their median")
	fs.DurationVar(&opt.round, "round", time.Second, "how long a measurement takes")
	fs.DurationVar(&opt.warmup, "warmup", 250*time.Millisecond, "how long the load runs before it is measured")
	fs.StringSliceVar(&opt.only, "only", nil, "`rows` to measure (default all, the libraries where their tools are installed)")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.StringArrayVar(&opt.leashFlags, "leash-flags", []string{""}, "`flags` of Leash; repeat to compare several sets of them")
	fs.Usage = func() { fmt.Fprint(out, lockUsage, fs.FlagUsages()) }
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	if fs.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q: flags of Leash go into --leash-flags", fs.Arg(0))
	}
	return opt, opt.validate()
}

func (o lockOptions) validate() error {
	var errs []error
	for _, n := range o.connections {
		errs = append(errs, within("connections", n, 1, 10000))
	}
	errs = append(errs, within("contenders", o.contenders, 2, 10000), o.validateRounds())
	errs = append(errs, someOf("only", o.only, allLockRows), someOf("upstream", o.grounds, allGrounds))
	return errors.Join(errs...)
}
