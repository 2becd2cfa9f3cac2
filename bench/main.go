package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"leash/bench/detection"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, pflag.ErrHelp):
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "bench: interrupted")
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints to out. Progress goes to standard error.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) > 0 {
		switch args[0] {
		case "locks":
			return runLocks(ctx, args[1:], out)
		case "watchdog":
			return runWatchdog(ctx, args[1:], out)
		case "stalls":
			return runStalls(ctx, args[1:], out)
		case "neighbour":
			return runNeighbour(ctx, args[1:], out)
		case loudCommand:
			return runLoud(args[1:], os.Stdin, out)
		case "fairness":
			return runFairness(ctx, args[1:], out)
		case "detection":
			return runDetection(ctx, args[1:], out)
		case inNamespace:
			return runInNamespace(ctx, args[1:], out)
		case detection.HolderCommand:
			return detection.Holder(args[1], args[2], args[3:]...)
		}
	}
	opt, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	b, err := setUp(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	if opt.gobench {
		printGobenchHead(out)
	}
	results, err := b.measureAll(ctx, opt, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", machine(args))
	printTable(out, results)
	return nil
}
