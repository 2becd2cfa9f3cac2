package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// The targets, in the order of the table.
const (
	toRedis        = "redis"
	toNutcracker   = "nutcracker"
	toLeash        = "leash"
	toCluster      = "cluster"
	toLeashCluster = "leash-cluster"
	toHAProxyTLS   = "haproxy-tls"
	toLeashTLS     = "leash-tls"
)

var (
	allTargets = []string{toRedis, toNutcracker, toLeash, toCluster, toLeashCluster, toHAProxyTLS, toLeashTLS}
	tlsTargets = []string{toRedis, toLeash, toHAProxyTLS, toLeashTLS}
)

// options are the flags.
type options struct {
	clients    int
	valueSize  int
	keys       int
	sets       int
	pipelines  []int
	rounds     int
	round      time.Duration
	warmup     time.Duration
	only       []string
	tls        bool
	leash      string
	leashFlags []string
	gobench    bool
}

// parseOptions returns pflag.ErrHelp when it has printed the help to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var opt options
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntVar(&opt.clients, "clients", 50, "connections that send at once")
	fs.IntVar(&opt.valueSize, "value-size", 64, "`bytes` of a value")
	fs.IntVar(&opt.keys, "keys", 10000, "keys in all; each client has its share")
	fs.IntVar(&opt.sets, "sets", 50, "`percent` of the commands that are SET; the others are GET")
	fs.IntSliceVar(&opt.pipelines, "pipeline", []int{1, 16}, "`commands` a batch, one measurement for each")
	fs.IntVar(&opt.rounds, "rounds", 5, "measurements of each target and pipeline; the table has their median")
	fs.DurationVar(&opt.round, "round", 2*time.Second, "how long a measurement takes")
	fs.DurationVar(&opt.warmup, "warmup", 500*time.Millisecond, "how long the load runs before it is measured")
	fs.StringSliceVar(&opt.only, "only", nil, "`targets` to measure: "+strings.Join(allTargets, ", ")+" (default those without TLS, nutcracker where it is installed)")
	fs.BoolVar(&opt.tls, "tls", false, "measure "+strings.Join(tlsTargets, ", ")+": clients with TLS, and without")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.StringArrayVar(&opt.leashFlags, "leash-flags", []string{""}, "`flags` of Leash; repeat to compare several sets of them")
	fs.BoolVar(&opt.gobench, "gobench", false, "print each measurement in the format of Go's benchmarks, too")
	fs.Usage = func() {
		fmt.Fprint(out, "Bench compares Leash with direct access to Redis and with other proxies.\n\n"+
			"Usage: go run ./bench [flags]\n"+
			"       go run ./bench locks|watchdog|fairness|detection|stalls|neighbour [flags]\n"+
			"       what locks cost, what renewals cost, how Leashes share a lock, how soon a lost holder's lock is free, reads beside a stalled write, one user beside a loud one\n\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: flags of Leash go into --leash-flags", fs.Arg(0))
	}
	if opt.tls && len(opt.only) > 0 {
		return options{}, errors.New("--tls and --only both name targets: give one of them")
	}
	if opt.tls {
		opt.only = tlsTargets
	}
	return opt, opt.validate()
}

func (o options) validate() error {
	errs := []error{
		within("clients", o.clients, 1, 10000),
		within("value-size", o.valueSize, 1, 1<<20),
		within("keys", o.keys, 1, 1<<20),
		within("sets", o.sets, 0, 100),
	}
	for _, n := range o.pipelines {
		errs = append(errs, within("pipeline", n, 1, 1024))
	}
	return errors.Join(append(errs, o.validateRounds(), someOf("only", o.only, allTargets))...)
}

// validateRounds checks the options that every kind of measurement has.
func (o options) validateRounds() error {
	errs := []error{within("rounds", o.rounds, 1, 1000)}
	if o.round < 100*time.Millisecond || o.round > time.Minute {
		errs = append(errs, fmt.Errorf("--round %v: give 100ms to 1m", o.round))
	}
	if o.warmup < 0 || o.warmup > time.Minute {
		errs = append(errs, fmt.Errorf("--warmup %v: give 0s to 1m", o.warmup))
	}
	return errors.Join(errs...)
}

// within returns an error if a flag's value is out of bounds. The bounds limit the time and memory
// of a run.
func within(flag string, v, least, most int) error {
	if v < least || v > most {
		return fmt.Errorf("--%s %d: give %d to %d", flag, v, least, most)
	}
	return nil
}

// someOf returns an error that lists the unknown names among the values of a flag.
func someOf(flag string, names, all []string) error {
	var errs []error
	for _, name := range names {
		if !slices.Contains(all, name) {
			errs = append(errs, fmt.Errorf("--%s %q: give some of %s", flag, name, strings.Join(all, ", ")))
		}
	}
	return errors.Join(errs...)
}

// wants reports whether the target was asked for, by name or by not naming any. Those with TLS need
// a name.
func (o options) wants(target string) bool {
	if len(o.only) == 0 {
		return target != toHAProxyTLS && target != toLeashTLS
	}
	return slices.Contains(o.only, target)
}
