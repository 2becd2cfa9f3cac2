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

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
)

func main() {
	if addr := os.Getenv(relayVariable); addr != "" {
		if relay(addr) != nil {
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills at once
	opt, err := parseOptions(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctx, opt, os.Stdout)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opt options, out io.Writer) error {
	level := slog.LevelInfo
	if opt.verbose {
		level = slog.LevelDebug
	}
	redis.SetLogger(silentLogger{})
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if len(opt.sabotage) > 0 {
		return checkSabotage(ctx, opt, log, out)
	}
	log.Info("nemesis", "seed", opt.seed, "for", opt.length, "clients", opt.clients)
	var flags []string
	if opt.grace {
		flags = []string{"--failover-grace", opt.graceTime().String()}
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

// trial lets clients take locks while everything breaks, and then judges what they saw, and whether
// it has settled.
func trial(ctx context.Context, opt options, b *testbed, settled func() error, log *slog.Logger, out io.Writer) error {
	sky := &faultTimeline{}
	if opt.grace { // a master may be new because it has just been started
		s := sky.begin("redis: started", false)
		sky.newMaster(s)
		sky.ended(s)
	}
	h, t := newHistory(sky, b.logs()...), newTally()
	a := newAudit(b, h, t, opt.graceTime())
	b.counters.renew()
	n := newNemesis(b, h, opt, log)
	n.tally = t
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
	cancel() // with an error there are no more faults, and perhaps a Leash less
	workers.Wait()
	log.Info("mended, and every client has gone")
	still := cmp.Or(broken, settled())
	stopLooking()
	lookers.Wait()

	fmt.Fprintf(out, "seed %d\nfaults\n%soperations\n%s", opt.seed, n, t)
	fmt.Fprintf(out, "the machine stalled %d times\n", sky.stalls)
	stayed, smooth, lingered := h.longestAfterEnd()
	fmt.Fprintf(out, "a lock stayed for %v at most after its holder's end, for %v if what was broken does not count,\nand was free for %v at most while somebody waited, a fair one for %v\n",
		round(stayed), round(smooth), round(a.longest), round(a.fairest))
	verdict := errors.Join(t.verdict(h), still, lingered, h.silenced(a.seats), h.check(out, log))
	if broken == nil && ctx.Err() == nil { // else it has not run for as long as it should
		verdict = errors.Join(verdict, h.coverage(opt, n.missed()))
	}
	return verdict
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// silentLogger keeps to itself what go-redis has to say of servers that we have killed.
type silentLogger struct{}

// Printf implements the logger of go-redis.
func (silentLogger) Printf(context.Context, string, ...any) {}
