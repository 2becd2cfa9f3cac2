// Strangers checks that nothing that strangers send, and nothing that a broken Redis answers,
// disturbs the other clients of a Leash.
//
// It starts a Redis Cluster of three nodes and a Leash on this machine. A proxy corrupts what two
// of the nodes answer. Strangers send mutated commands and handshakes to Leash, in pieces, and drop
// their connections in any state. Redis gives them a user who may use no key of others and no
// dangerous command, so they may do no damage. Beside them, other clients use keys and locks of the
// third node. A run fails in these cases:
//
//   - One of these clients gets a wrong reply or an error, or loses its connection or a lock.
//   - Leash sends a stranger bytes that are no RESP.
//   - Something in Leash panics, or a client, a hold or a waiter stays at the end.
//
// With --drop, a process of its own opens and drops connections. Nothing is corrupted. The run then
// prints what Leash needs before and after: memory, goroutines, descriptors, and how long another
// client waits.
//
// redis-server and go must be on the PATH.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// options are the settings of a run.
type options struct {
	length    time.Duration
	drop      int // connections to drop; 0 for a run with mutated streams
	rate      int // of these connections a second
	strangers int // connections of strangers at a time
	seed      uint64
	dir       string // for Leash's binary and its files
}

func main() {
	var opt options
	flag.DurationVar(&opt.length, "for", 10*time.Minute, "how long the run takes")
	flag.IntVar(&opt.drop, "drop", 0, "drop so many connections instead of sending mutated commands")
	flag.IntVar(&opt.rate, "rate", 300, "how many connections are dropped in a second")
	flag.IntVar(&opt.strangers, "strangers", 16, "how many strangers are connected at a time")
	flag.Uint64Var(&opt.seed, "seed", rand.Uint64(), "makes the same mutations as an earlier run")
	flag.Parse()
	if flag.Arg(0) == dropperCommand {
		if err := runDropper(flag.Arg(1)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "strangers")
	if err == nil {
		opt.dir = dir
		if opt.drop > 0 {
			err = runDrops(opt, os.Stdout)
		} else {
			err = runMutations(opt, os.Stdout)
		}
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "strangers:", err)
		os.Exit(1)
	}
}
