package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

const fairnessUsage = `Bench fairness measures how several Leashes share a lock that clients of all of them want. The Leashes are at
different distances from Redis: a proxy between each of them and Redis delays what passes. Each client acquires the
lock, holds it, releases it, and begins again.

Usage: go run ./bench fairness [flags]

The columns: the time of a round trip between a Leash and Redis, its clients, how often they got the lock, how long
they waited for it, and the longest wait as a multiple of the mean wait of all. "calls" are the scripts that Redis ran
for a grant and its release.

`

// fairnessOptions are the flags of "bench fairness".
type fairnessOptions struct {
	options
	hold  time.Duration
	round time.Duration
	kinds []string
}

func parseFairnessOptions(args []string, out io.Writer) (fairnessOptions, error) {
	var opt fairnessOptions
	fs := pflag.NewFlagSet("bench fairness", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.DurationVar(&opt.hold, "hold", 5*time.Millisecond, "how long a client holds the lock")
	fs.DurationVar(&opt.round, "round", 10*time.Second, "how long each row is measured")
	fs.StringSliceVar(&opt.kinds, "kinds", contestNames(), "`kinds` of lock to measure")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.Usage = func() { fmt.Fprint(out, fairnessUsage, fs.FlagUsages()) }
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return opt, errors.Join(err, someOf("kinds", opt.kinds, contestNames()))
}

// A contest is a kind of lock that clients compete for.
type contest struct {
	name    string
	prepare []string
	acquire []string
	release []string
}

var contests = []contest{
	{"lock", nil, []string{"LOCK.ACQUIRE", fairnessKey, "BLOCK", "0"}, []string{"LOCK.RELEASE", fairnessKey}},
	{"WRITE", nil, []string{"LOCK.ACQUIRE", fairnessKey, "WRITE", "BLOCK", "0"}, []string{"LOCK.RELEASE", fairnessKey, "WRITE"}},
	{"FAIR", nil, []string{"LOCK.ACQUIRE", fairnessKey, "FAIR", "BLOCK", "0"}, []string{"LOCK.RELEASE", fairnessKey}},
	{"permit", []string{"SEM.INIT", fairnessKey, "1"}, []string{"SEM.ACQUIRE", fairnessKey, "BLOCK", "0"}, []string{"SEM.RELEASE", fairnessKey}},
}

const fairnessKey = "bench:fairness"

func contestNames() (names []string) {
	for _, c := range contests {
		names = append(names, c.name)
	}
	return names
}

// A site is a Leash at a distance from Redis, and its clients.
type site struct {
	roundTrip time.Duration
	clients   int
}

// siteGroups are the groups of Leashes that share a lock.
var siteGroups = [][]site{
	{{300 * time.Microsecond, 7}, {300 * time.Microsecond, 7}},
	{{300 * time.Microsecond, 7}, {time.Millisecond, 7}},
	{{300 * time.Microsecond, 7}, {4 * time.Millisecond, 7}},
	{{300 * time.Microsecond, 7}, {20 * time.Millisecond, 7}},
	{{300 * time.Microsecond, 7}, {300 * time.Microsecond, 7}, {4 * time.Millisecond, 7}, {20 * time.Millisecond, 7}},
	{{300 * time.Microsecond, 30}, {20 * time.Millisecond, 1}},
}
