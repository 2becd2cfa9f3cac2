package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// options are the command line.
type options struct {
	length   time.Duration
	seed     uint64
	clients  int
	kinds    []string
	forget   bool
	sabotage bool
	race     bool
	verbose  bool
}

func main() {
	var opt options
	pflag.DurationVar(&opt.length, "for", 3*time.Minute, "for how long to break things")
	pflag.Uint64Var(&opt.seed, "seed", 0, "of the random choices; 0 takes one from the clock")
	pflag.IntVar(&opt.clients, "clients", 40, "how many clients take locks")
	pflag.StringSliceVar(&opt.kinds, "kinds", []string{"lock", "fair", "rw", "sem"}, "of locks")
	pflag.BoolVar(&opt.forget, "forget", false, "also break what makes Redis forget locks: FLUSHALL, masters that die")
	pflag.BoolVar(&opt.sabotage, "sabotage", false, "delete locks behind Leash's back: the check must fail")
	pflag.BoolVar(&opt.race, "race", false, "build Leash under the race detector")
	pflag.BoolVarP(&opt.verbose, "verbose", "v", false, "tell of each fault")
	pflag.Parse()
	opt.seed = cmp.Or(opt.seed, uint64(time.Now().UnixNano()))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opt); err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opt options) (err error) {
	level := slog.LevelInfo
	if opt.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	log.Info("nemesis", "seed", opt.seed, "for", opt.length, "clients", opt.clients)
	b, err := setUp(ctx, keysOf(opt.kinds), opt.race)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	h, t := newHistory(), &tally{count: make(map[string]int)}
	if err := b.prepare(); err != nil {
		return err
	}
	n := &nemesis{bed: b, rnd: random(opt.seed, 0), history: h, log: log, forget: opt.forget, struck: make(map[string]int)}

	running, cancel := context.WithTimeout(ctx, opt.length)
	defer cancel()
	var workers sync.WaitGroup
	for i := range opt.clients {
		w := &worker{number: i, addrs: b.addrs(), keys: b.keys, rnd: random(opt.seed, uint64(i)+1), history: h, tally: t}
		workers.Go(func() { w.run(running) })
	}
	if opt.sabotage {
		workers.Go(func() { n.sabotage(running) })
	}
	broken := n.run(running)
	workers.Wait()
	if broken != nil {
		return broken
	}
	report(os.Stdout, n, t)
	log.Info("mended, and every client has gone")
	settled := b.settled()
	log.Info("checking", "holds", h.holds)
	return errors.Join(t.verdict(), settled, h.check())
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
