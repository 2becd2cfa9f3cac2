package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// guardEvery is how often a holder's time is compared with the clock.
const guardEvery = 50 * time.Millisecond

// runOptions are the flags that leash lock and leash elect share.
type runOptions struct {
	killAfter time.Duration
	fenceEnv  string
}

func (o *runOptions) addTo(c *cobra.Command) {
	c.Flags().DurationVar(&o.killAfter, "kill-after", 5*time.Second,
		"time between SIGTERM and SIGKILL for a program whose lock is about to run out")
	c.Flags().StringVar(&o.fenceEnv, "fence-env", "LEASH_TOKEN",
		"environment variable in which the program finds its fencing token")
}

func newLock(servers *serverList) *cobra.Command {
	var t terms
	var o runOptions
	var read, write, fair bool
	c := &cobra.Command{
		Use:   "lock KEY [flags] -- PROGRAM [argument ...]",
		Short: "Run a program while holding a lock",
		Long: `Run a program while holding a lock, or permits of a semaphore.

The program gets the standard streams, the signals and the terminal of this command, and its exit
status is the status of this command. If the lock is lost, its whole process group gets SIGTERM, and
SIGKILL before anybody else can have the lock, as far as Leash knows that before.

Exit status, if it is not the program's own:
    1  Leash answered with an error
   64  a wrong flag or argument
   69  no Leash answers
   75  somebody else has the lock
   76  the lock was lost, and the program was ended
  126  the program cannot be executed
  127  there is no such program
  128 + n  signal n ended the program, or this command while it waited`,
		Example: `  leash lock nightly-report -- ./report.sh
  leash lock order:42 --wait 30s -- ./charge 42
  leash lock licences --permits 2 --wait 10m -- ./render`,
		Args: programArgs,
		RunE: func(c *cobra.Command, args []string) error {
			t.key, t.block = args[0], c.Flags().Changed("wait")
			for name, chosen := range map[string]bool{"READ": read, "WRITE": write, "FAIR": fair} {
				if chosen {
					t.mode = name
				}
			}
			if t.wait < 0 || t.permits < 0 || o.killAfter < 0 {
				return errors.New("--wait, --permits and --kill-after cannot be negative")
			}
			return runUnder(c, servers, t, o, args[1:])
		},
	}
	f := c.Flags()
	f.DurationVar(&t.wait, "wait", 0, "wait for the lock for up to this time; 0 waits without end (default: do not wait)")
	f.BoolVar(&read, "read", false, "share the lock with other readers")
	f.BoolVar(&write, "write", false, "exclude readers and writers")
	f.BoolVar(&fair, "fair", false, "wait in the order of arrival, also among other Leashes")
	f.IntVar(&t.permits, "permits", 0, "take this many permits of the semaphore KEY instead of a lock")
	o.addTo(c)
	c.MarkFlagsMutuallyExclusive("read", "write", "fair", "permits")
	return c
}

// programArgs wants a key, and a program after --.
func programArgs(c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash < 0 || len(args) == dash:
		return fmt.Errorf("give the program after --: leash %s KEY -- PROGRAM", c.Name())
	case dash != 1:
		return errors.New("give exactly one KEY before --")
	}
	return nil
}

// runUnder takes the lock, runs the program and releases the lock.
func runUnder(c *cobra.Command, servers *serverList, t terms, o runOptions, argv []string) error {
	signals, stop := passSignals()
	defer stop()
	h, err := acquireFor(c, servers, t)
	if err != nil {
		return err
	}
	runErr := runHolding(c, h, o, argv, signals)
	lost, limit := errors.Is(runErr, errLost), answerTime
	if lost { // often because Redis is silent, and then it runs out by itself
		limit = connectTime
	}
	if err := h.release(limit); err != nil && !lost {
		fmt.Fprintf(c.ErrOrStderr(), "leash: the lock %s was not released and runs out by itself: %v\n", t.key, err)
	}
	return runErr
}

// errLost is the error when the lock was lost while the program ran.
var errLost = errors.New("lost")

// runHolding runs the program. If the lock is lost before it ends, it is ended, and the error is an
// errLost with its exit status.
func runHolding(c *cobra.Command, h holder, o runOptions, argv []string, signals <-chan os.Signal) error {
	// A lock is renewed when a third of its time is over, so less than two thirds are never usual.
	killAfter := min(o.killAfter, time.Until(h.validUntil())/3)
	env := os.Environ()
	if token := h.fence(); token != "" && o.fenceEnv != "" {
		env = append(env, o.fenceEnv+"="+token)
	}
	program, err := startChild(argv, env, c.OutOrStdout(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-program.done:
			return program.result()
		case sig := <-signals:
			program.signal(sig)
		case <-h.lost():
			program.endBy(atOnce) // somebody else may have it already
			return lostError(h.lossReason())
		case <-tick.C:
			if time.Until(h.validUntil()) < killAfter+guardEvery {
				return endInTime(c.ErrOrStderr(), program, h)
			}
		}
	}
}

// endInTime ends a program whose lock is not renewed any more, before the lock is over.
func endInTime(stderr io.Writer, program *child, h holder) error {
	fmt.Fprintln(stderr, "leash: the lock was not renewed, ending the program")
	program.endBy(func() time.Time {
		select {
		case <-h.lost():
			return atOnce()
		default:
			return h.validUntil().Add(-guardEvery)
		}
	})
	return lostError("it was not renewed in time")
}

// atOnce is a time that is over.
func atOnce() time.Time { return time.Time{} }

func lostError(reason string) error {
	return &exitError{exitLost, fmt.Errorf("the lock is %w: %s", errLost, reason)}
}
