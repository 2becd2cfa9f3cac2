package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"leash/internal/nemesis/history"

	"github.com/spf13/pflag"
)

// options holds the command-line flags.
type options struct {
	length   time.Duration
	seed     uint64
	clients  int
	kinds    []string
	faults   []string
	forget   bool
	grace    bool
	sabotage []string
	race     bool
	other    string // the second Leash's binary, "" for the same one
	verbose  bool
}

const usageText = `Nemesis tries to make two clients believe that they hold the same lock.

It starts a Redis Cluster with replicas and two Leashes on this machine.
Clients take, hold and release locks in all ways that Leash offers.
During that time, Nemesis causes faults in the network, Redis, the Leashes and the clients.
Faults of Redis's clocks need Linux and a C compiler.
Then it checks what the clients saw against models of the locks. A run fails if
  - two clients may have believed at once that they held a lock,
  - a token did not rise,
  - a lock stayed too long after its hold had ended, or was free while a client waited,
  - a counter or a latch does not add up, or
  - Leash keeps something of clients that have left.
It then prints what happened at that time.
redis-server and go must be on the PATH. Go builds Leash.

Usage: go run ./internal/nemesis [flags]

`

// parseOptions parses the command line. It returns pflag.ErrHelp after it has printed the help to
// out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var opt options
	fs := pflag.NewFlagSet("nemesis", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.DurationVar(&opt.length, "for", 3*time.Minute, "how long to cause faults")
	fs.Uint64Var(&opt.seed, "seed", 0, "`seed` of the random choices; 0 takes it from the clock")
	fs.IntVar(&opt.clients, "clients", 40, "how many `clients` take locks")
	fs.StringSliceVar(&opt.kinds, "kinds", allKinds, "`kinds` of locks: plain, fair, read-write, semaphores, a quorum of several; counters and latches")
	fs.StringSliceVar(&opt.faults, "faults", nil, "only the faults below whose names contain one of these `words`")
	fs.BoolVar(&opt.forget, "forget", false, "also cause faults by which Redis forgets locks: FLUSHALL, masters that die; the check excepts what they explain, and counts it")
	fs.BoolVar(&opt.grace, "grace", false, "give Leash a grace period after a failover; the check then excepts nothing of a failover")
	fs.StringSliceVar(&opt.sabotage, "sabotage", nil, "test the check instead: it must find scripts that are broken on purpose; `names`: "+strings.Join(sabotageNames(), ", ")+", or all")
	fs.BoolVar(&opt.race, "race", false, "build Leash under the race detector")
	fs.StringVar(&opt.other, "other", "", "a `binary` of another version of Leash for the second of the two, as during an upgrade")
	fs.BoolVarP(&opt.verbose, "verbose", "v", false, "log each fault")
	fs.Usage = func() {
		fmt.Fprint(out, usageText, fs.FlagUsages(), "\nFaults:\n")
		for _, f := range allFaults() {
			fmt.Fprint(out, "  ", f.name, only(f.forget, " (with --forget)"), "\n")
		}
	}
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	opt.seed = cmp.Or(opt.seed, uint64(time.Now().UnixNano()))
	return opt, opt.validate()
}

// graceTime returns the value of Leash's --failover-grace, or 0 without a grace period.
func (o options) graceTime() time.Duration {
	if !o.grace {
		return 0
	}
	return history.LongestTTL
}

func only(when bool, text string) string {
	if when {
		return text
	}
	return ""
}

func (o options) validate() error {
	var errs []error
	if o.length <= 0 {
		errs = append(errs, fmt.Errorf("--for %v: give a time above 0", o.length))
	}
	if o.clients < 1 || o.clients > 1000 {
		errs = append(errs, fmt.Errorf("--clients %d: give 1 to 1000", o.clients))
	}
	for _, kind := range o.kinds {
		if !slices.Contains(allKinds, kind) {
			errs = append(errs, fmt.Errorf("--kinds %q: give some of %s", kind, strings.Join(allKinds, ", ")))
		}
	}
	for _, word := range o.faults {
		if len(chosen([]string{word}, o.forget)) == 0 {
			errs = append(errs, fmt.Errorf("--faults %q: no fault has that in its name; --help lists them", word))
		}
	}
	for _, name := range o.sabotage {
		if name != "all" && !slices.Contains(sabotageNames(), name) {
			errs = append(errs, fmt.Errorf("--sabotage %q: give some of %s, or all", name, strings.Join(sabotageNames(), ", ")))
		}
	}
	if o.other != "" && len(o.sabotage) > 0 {
		errs = append(errs, errors.New("--other: give it without --sabotage, which tests one version"))
	}
	return errors.Join(errs...)
}
