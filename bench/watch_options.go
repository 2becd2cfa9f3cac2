package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// watchOptions are the flags of "bench watchdog".
type watchOptions struct {
	options     // leash; leashFlags has one set of them
	holds       []int
	connections int
	ttl         time.Duration
	periods     int
	rate        int
}

const watchUsage = `Bench watchdog lets one Leash before a cluster of three masters keep many locks alive, and looks at what that costs.

The connections take the locks and stay. Meanwhile every lock is asked for its remaining TTL, at Redis itself, once a renewal period (a
third of the TTL), and a hundredth of them while acquires are measured, for nobody has such a watch beside the locks. At the end all are released, and
acquires are measured once more beside none: a machine may have become slower. The columns of a row, each for so many holds that are kept at once:
  least TTL s     the least that was seen of any lock, also while they were taken; aim: never under half the TTL
  late            how often less than two thirds of the TTL, and half a second, was seen: while they were taken, as fast as possible, and since
  lost            holds that were lost; aim: 0
  of a core       the CPU that Leash used beside nothing but the holds
  leash CPU µs, redis CPU µs
                  for each renewal of a hold: of Leash as the kernel counts it, of Redis as it counts the scripts itself
  heap B, RSS B   of Leash for each hold: what the garbage collector found in use, and what the process has got from the kernel
  p50 ms, p99 ms  of LOCK.ACQUIRE, sent at a steady rate by ten other connections; what was late because the one before it was still under way
                  counts from when it was due
  direct p99 ms   of a script that looks at one key, sent to Redis itself meanwhile: so much of it is the time of Redis and of the machine
  ×               how many times what it is beside no holds, of which there are two measurements; aim: at most twice

Usage: go run ./bench watchdog [flags]

`

// parseWatchOptions returns pflag.ErrHelp when it has printed the help to out.
func parseWatchOptions(args []string, out io.Writer) (watchOptions, error) {
	opt := watchOptions{}
	fs := pflag.NewFlagSet("bench watchdog", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntSliceVar(&opt.holds, "holds", []int{1000, 10000, 100000, 1000000}, "`holds` that are kept at once, one row for each; growing")
	fs.IntVar(&opt.connections, "connections", 1000, "`connections` that the holds hang on")
	fs.DurationVar(&opt.ttl, "ttl", 30*time.Second, "Leash's --watchdog-timeout, of which a hold is renewed each third")
	fs.IntVar(&opt.periods, "periods", 3, "renewal `periods` that each measurement takes")
	fs.IntVar(&opt.rate, "rate", 500, "LOCK.ACQUIREs a second that are measured beside the holds")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.StringArrayVar(&opt.leashFlags, "leash-flags", []string{""}, "`flags` of Leash")
	fs.Usage = func() { fmt.Fprint(out, watchUsage, fs.FlagUsages()) }
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	if fs.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q: flags of Leash go into --leash-flags", fs.Arg(0))
	}
	return opt, opt.validate()
}

func (o watchOptions) validate() error {
	errs := []error{
		within("connections", o.connections, 1, 5000),
		within("periods", o.periods, 1, 100),
		within("rate", o.rate, 10, 10000),
	}
	for _, n := range o.holds {
		errs = append(errs, within("holds", n, 1, 10_000_000))
	}
	if len(o.holds) == 0 || !slices.IsSorted(o.holds) {
		errs = append(errs, fmt.Errorf("--holds %d: give growing numbers", o.holds))
	}
	if o.ttl < time.Second || o.ttl > time.Hour {
		errs = append(errs, fmt.Errorf("--ttl %v: give 1s to 1h", o.ttl))
	}
	if len(o.leashFlags) != 1 {
		errs = append(errs, errors.New("--leash-flags: give them once"))
	}
	return errors.Join(errs...)
}

// period is how long a renewal period lasts.
func (o watchOptions) period() time.Duration { return o.ttl / 3 }
