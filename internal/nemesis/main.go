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

	"leash/internal/nemesis/history"

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
	context.AfterFunc(ctx, stop) // a second signal kills at once
	opt, err := parseOptions(os.Args[1:], os.Stdout)
	if err == nil {
		err = run(ctx, opt, os.Stdout)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "nemesis: %v\n\nin short:\n%s", err, history.Short(err))
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
	b, err := setUp(ctx, opt, nil, log, flags...)
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

// trial runs clients and causes faults. Then it checks what the clients saw. settled checks whether
// the Leashes have cleaned up.
func trial(ctx context.Context, opt options, b *testbed, settled func() error, log *slog.Logger, out io.Writer) error {
	timeline := &history.FaultTimeline{}
	if opt.grace { // Leash takes a master that has just been started for new
		s := timeline.Begin("redis: started", false)
		timeline.NewMaster(s)
		timeline.Ended(s)
	}
	h, t := history.NewHistory(timeline, b.logs()...), history.NewTally()
	a := newAudit(b, h, t, opt.graceTime())
	b.counters.renew()
	n := newNemesis(b, h, opt, log)
	n.tally = t
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() { timeline.WatchStalls(watching) })
	watchers.Go(func() { a.run(watching) })

	running, cancel := context.WithTimeout(ctx, opt.length)
	defer cancel()
	var workers sync.WaitGroup
	for i := range opt.clients {
		w := &worker{number: i, bed: b, rnd: random(opt.seed, uint64(i)+1), history: h, tally: t, audit: a}
		workers.Go(func() { w.run(running) })
	}
	broken := n.run(running)
	cancel() // after an error there are no more faults, and a Leash may be missing
	workers.Wait()
	log.Info("all faults have ended, and all clients have left")
	unsettled := cmp.Or(broken, settled())
	stopWatching()
	watchers.Wait()

	fmt.Fprintf(out, "seed %d\nfaults\n%soperations\n%s", opt.seed, n, t)
	fmt.Fprintf(out, "the machine stalled %d times\n", timeline.Stalls)
	stayed, smooth, lingered := h.LongestAfterEnd()
	fmt.Fprintf(out, "longest time that a lock stayed after its hold had ended: %v, and %v without the time with faults\nlongest time that a lock was free while a client waited: %v, and a fair lock: %v\n",
		history.Round(stayed), history.Round(smooth), history.Round(a.longest), history.Round(a.longestFair))
	verdict := errors.Join(t.Verdict(h), unsettled, lingered, h.CheckSilentLosses(a.masters), h.Check(out, log))
	if broken == nil && ctx.Err() == nil { // otherwise the run was too short
		verdict = errors.Join(verdict, h.Coverage(opt.kinds, opt.length, n.missed()))
	}
	return verdict
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// silentLogger drops what go-redis logs about servers that Nemesis has killed.
type silentLogger struct{}

// Printf implements the logger of go-redis.
func (silentLogger) Printf(context.Context, string, ...any) {}
