package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
)

// options are the command line.
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
	verbose  bool
}

func main() {
	if addr := os.Getenv(relayVariable); addr != "" {
		if relay(addr) != nil {
			os.Exit(1)
		}
		return
	}
	var opt options
	pflag.DurationVar(&opt.length, "for", 3*time.Minute, "for how long to break things")
	pflag.Uint64Var(&opt.seed, "seed", 0, "of the random choices; 0 takes one from the clock")
	pflag.IntVar(&opt.clients, "clients", 40, "how many clients take locks")
	pflag.StringSliceVar(&opt.kinds, "kinds", []string{"lock", "fair", "rw", "sem", quorumKey}, "of locks")
	pflag.StringSliceVar(&opt.faults, "faults", nil, "only those whose names hold one of these words")
	pflag.BoolVar(&opt.forget, "forget", false, "also break what makes Redis forget locks: FLUSHALL, masters that die")
	pflag.BoolVar(&opt.grace, "grace", false, "let Leash grant nothing for a while after a failover: then nothing of one is excepted")
	pflag.StringSliceVar(&opt.sabotage, "sabotage", nil, "check the check instead, with a script that is broken: owner, release, renew, permits, token, or all")
	pflag.BoolVar(&opt.race, "race", false, "build Leash under the race detector")
	pflag.BoolVarP(&opt.verbose, "verbose", "v", false, "tell of each fault")
	pflag.Parse()
	opt.seed = cmp.Or(opt.seed, uint64(time.Now().UnixNano()))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opt, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opt options, out io.Writer) error {
	level := slog.LevelInfo
	if opt.verbose {
		level = slog.LevelDebug
	}
	redis.SetLogger(quiet{})
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if len(opt.sabotage) > 0 {
		return checkCheck(ctx, opt, log, out)
	}
	log.Info("nemesis", "seed", opt.seed, "for", opt.length, "clients", opt.clients)
	var flags []string
	if opt.grace {
		flags = []string{"--failover-grace", longestTTL.String()}
	}
	b, err := setUp(ctx, keysOf(opt.kinds), opt.race, nil, log, flags...)
	if err != nil {
		return err
	}
	before, err := b.usage()
	if err != nil {
		return errors.Join(err, b.close())
	}
	settled := func() error { return b.settled(before) }
	return errors.Join(trial(ctx, opt, b, settled, log, out), b.close())
}

// trial lets clients take locks while everything breaks, and then judges what they saw, and whether it has settled.
func trial(ctx context.Context, opt options, b *bed, settled func() error, log *slog.Logger, out io.Writer) error {
	sky := &weather{}
	h, t := newHistory(sky, b.logs()...), newTally()
	a := newAudit(b, h, t)
	n := &nemesis{bed: b, history: h, weather: sky, log: log, faults: chosen(opt.faults, opt.forget), grace: opt.grace, seed: opt.seed, struck: make(map[string]int)}
	looking, stopLooking := context.WithCancel(ctx)
	defer stopLooking()
	var lookers sync.WaitGroup
	lookers.Go(func() { sky.watchStalls(looking) })
	lookers.Go(func() { a.run(looking) })

	running, cancel := context.WithTimeout(ctx, opt.length)
	defer cancel()
	var workers sync.WaitGroup
	for i := range opt.clients {
		w := &worker{number: i, bed: b, rnd: random(opt.seed, uint64(i)+1), history: h, tally: t, audit: a}
		workers.Go(func() { w.run(running) })
	}
	broken := n.run(running)
	workers.Wait()
	log.Info("mended, and every client has gone")
	still := cmp.Or(broken, settled())
	stopLooking()
	lookers.Wait()

	fmt.Fprintf(out, "seed %d\nfaults\n%soperations\n%s", opt.seed, n, t)
	fmt.Fprintf(out, "the machine stalled %d times\n", sky.stalls)
	stayed, smooth, lingered := h.lingered()
	fmt.Fprintf(out, "a lock stayed for %v at most after its holder's end, for %v if what was broken does not count,\nand was free for %v at most while somebody waited\n",
		round(stayed), round(smooth), round(a.longest))
	return errors.Join(t.verdict(h), still, lingered, h.check(out))
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// quiet keeps to itself what go-redis has to say of servers that we have killed.
type quiet struct{}

// Printf implements the logger of go-redis.
func (quiet) Printf(context.Context, string, ...any) {}
