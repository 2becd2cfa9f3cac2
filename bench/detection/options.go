package detection

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options are the flags of "bench detection".
type Options struct {
	Rounds      int
	TTL         time.Duration // of the locks
	PeerTimeout time.Duration
	MaxHold     time.Duration // of the holder that is stopped
	NodeTimeout time.Duration // of the cluster
	Only        []string
	Leash       string // the binary
}

// ErrNoNamespaces is the error if this user, or this container, may not make namespaces.
var ErrNoNamespaces = errors.New("detection needs network namespaces of its own: run it as root, not in a container that denies them")

const usage = `Bench detection measures how long a lock stays with a holder that is gone, until the next in line has it.

It makes network namespaces for that, so it needs root, or a kernel that lets users have namespaces of their own, and ip (iproute2).

Usage: go run ./bench detection [flags]

`

// ParseOptions returns pflag.ErrHelp when it has printed the help to out.
func ParseOptions(args []string, out io.Writer) (Options, error) {
	var opt Options
	fs := pflag.NewFlagSet("bench detection", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntVar(&opt.Rounds, "rounds", 5, "how often each failure happens; a round takes a minute or so")
	fs.DurationVar(&opt.TTL, "watchdog-timeout", 30*time.Second, "Leash's: time to live of a lock")
	fs.DurationVar(&opt.PeerTimeout, "peer-timeout", 11*time.Second, "Leash's: after which a silent host is dead")
	fs.DurationVar(&opt.MaxHold, "max-hold", 10*time.Second, "MAXHOLD of the lock whose holder is stopped")
	fs.DurationVar(&opt.NodeTimeout, "node-timeout", 5*time.Second, "cluster-node-timeout of the cluster that loses a master")
	fs.StringSliceVar(&opt.Only, "only", nil, "`failures` to measure, by the first words of their names (default all)")
	fs.StringVar(&opt.Leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.Usage = func() { fmt.Fprint(out, usage, fs.FlagUsages()) }
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	if fs.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return opt, opt.validate()
}

func (o Options) validate() error {
	var errs []error
	if o.Rounds < 1 || o.Rounds > 100 {
		errs = append(errs, fmt.Errorf("--rounds %d: give 1 to 100", o.Rounds))
	}
	for name, d := range map[string]time.Duration{
		"watchdog-timeout": o.TTL, "peer-timeout": o.PeerTimeout, "max-hold": o.MaxHold, "node-timeout": o.NodeTimeout,
	} {
		if d < time.Second || d > 10*time.Minute {
			errs = append(errs, fmt.Errorf("--%s %v: give 1s to 10m", name, d))
		}
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(failures(), func(m failure) bool { return strings.HasPrefix(m.name, name) }) {
			errs = append(errs, fmt.Errorf("--only %q: give the first words of a row's name", name))
		}
	}
	return errors.Join(errs...)
}

// chosen are the failures to run.
func (o Options) chosen() []failure {
	all := failures()
	if len(o.Only) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(m failure) bool {
		return !slices.ContainsFunc(o.Only, func(name string) bool { return strings.HasPrefix(m.name, name) })
	})
}
