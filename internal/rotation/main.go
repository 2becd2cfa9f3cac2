// Rotation checks that Leash loses nothing while the password of its own user changes all the time.
//
// It starts a Redis and a Leash on this machine. Tokens serve as passwords, as at the cloud
// services: each is valid for 15 s, and a new one comes every 5 s. When a token ends, Redis refuses
// it, and a gate between Leash and Redis closes each connection whose last AUTH had it. Clients
// hold locks, send commands and messages, and check every reply. A run fails if a hold is lost, a
// reply is not the one of its command, a message is missing, or a connection ends that is in use.
//
// redis-server and go must be on the PATH.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// options are the settings of a run.
type options struct {
	length time.Duration
	holds  int
	lasts  time.Duration // how long a token is valid
	ttl    string        // of a token in Leash
	dir    string        // for Leash's binary and its files
}

func main() {
	opt := options{lasts: 15 * time.Second}
	flag.DurationVar(&opt.length, "for", 10*time.Minute, "how long the run takes")
	flag.IntVar(&opt.holds, "holds", 10_000, "how many locks are held")
	flag.StringVar(&opt.ttl, "ttl", "5s", "the value of Leash's --upstream-password-ttl")
	flag.Parse()
	dir, err := os.MkdirTemp("", "rotation")
	if err == nil {
		defer os.RemoveAll(dir)
		opt.dir = dir
		err = run(opt, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rotation:", err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
}
