// Interop runs real Redis clients through Leash, unmodified and with their own defaults.
//
//	go run ./internal/interop                       all of them
//	go run ./internal/interop --only jedis,ioredis  some
//	go run ./internal/interop --direct              without Leash: proves the programs, not Leash
//	go run ./internal/interop --tls                 with TLS on both sides of Leash
//
// Each client has a directory beside this file, with one short program in its own language. The
// program gets a host, a port and a mode: "standalone" or "cluster". It tries what the client is
// used for, prints a line for each step, and ends with 0 if all went well. A fourth argument,
// "direct", says that it speaks to Redis itself, where there are no locks to try. Redisson's
// programs get the addresses of Redis instead. They connect to Redis and to Leash. The
// program of socket.io gets the address of a second Leash in front of the same servers.
//
// The standalone programs use a Leash in front of a Redis and one in front of a cluster. The
// cluster programs use the second one. Their client asks for the topology and is shown one node
// that owns all slots.
//
// With --tls, Redis has no port without TLS, and its cluster announces host names. The standalone
// programs also use a Leash that is given only sentinels, with TLS. Then one more program keeps a
// lock and writes while the master changes. The environment
// of the programs says INTEROP_TLS=yes, and names the authority of the certificates in the
// variables that their languages read. Steps whose code a page shows without TLS are left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

type options struct {
	dir     string
	only    []string
	mode    string
	direct  bool
	tls     bool
	verbose bool
	timeout time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var opt options
	fs := pflag.NewFlagSet("interop", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringVar(&opt.dir, "dir", "internal/interop", "`directory` of the clients' programs")
	fs.StringSliceVar(&opt.only, "only", nil, "`clients` to run: "+strings.Join(names(), ", ")+" (default all)")
	fs.StringVar(&opt.mode, "mode", "", "standalone or cluster (default both)")
	fs.BoolVar(&opt.direct, "direct", false, "run against Redis itself")
	fs.BoolVar(&opt.tls, "tls", false, "with TLS from the programs to Leash, and from Leash to Redis")
	fs.BoolVarP(&opt.verbose, "verbose", "v", false, "show what the programs print, also when all is well")
	fs.DurationVar(&opt.timeout, "timeout", 5*time.Minute, "for each program")
	fs.Usage = func() {
		fmt.Fprint(out, "Interop runs Redis clients through Leash.\n\nUsage: go run ./internal/interop [flags]\n\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	for _, name := range opt.only {
		if !slices.Contains(names(), name) {
			return options{}, fmt.Errorf("--only %q: give some of %s", name, strings.Join(names(), ", "))
		}
	}
	if opt.mode != "" && opt.mode != standalone && opt.mode != cluster {
		return options{}, fmt.Errorf("--mode %q: give %s or %s", opt.mode, standalone, cluster)
	}
	var err error
	opt.dir, err = filepath.Abs(opt.dir)
	return opt, err
}

// wants reports whether the client was asked for, by name or by not naming any.
func (o options) wants(c client) bool {
	return len(o.only) == 0 || slices.Contains(o.only, c.name)
}

// run prints a line for each program and returns an error when one failed.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(slices.Clone(clients), func(c client) bool { return !opt.wants(c) })
	ready := prepareAll(ctx, opt.dir, wanted)
	defer ready.wait()
	b, err := setUp(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	passed, failed := b.runAll(ctx, wanted, ready, opt, out)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if failed == 0 {
		if err := b.awaitIdle(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "interop: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d programs failed", failed, passed+failed)
	}
	return nil
}
