package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// Exit statuses of the commands. They are those of sysexits.h where it has one, so that scripts can
// tell them from the statuses of most programs.
const (
	exitFailed      = 1
	exitUsage       = 64  // EX_USAGE
	exitUnavailable = 69  // EX_UNAVAILABLE: no Leash answers
	exitTaken       = 75  // EX_TEMPFAIL: somebody else has the lock
	exitLost        = 76  // the lock was lost while the program ran
	exitNotRun      = 126 // the program cannot be executed, as a shell says it
	exitNotFound    = 127 // there is no such program
	exitSignal      = 128 // plus the number of the signal that ended the program
)

// exitError is an error with the exit status that it causes. A nil err says nothing on stderr.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Has reports whether the arguments of the leash binary begin with a command of this package.
func Has(args []string) bool {
	if len(args) == 0 {
		return false
	}
	root := newRoot(io.Discard)
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		if c.Name() == args[0] || c.HasAlias(args[0]) {
			return true
		}
	}
	return slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0])
}

// Run runs a command and returns the exit status of the process. It returns when the command is
// over. A ctx that ends makes it give up; a program that runs under a lock gets signals instead.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	redis.SetLogger(silentLogger{})
	root := newRoot(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		exit = &exitError{exitUsage, err}
	}
	if exit.err != nil {
		fmt.Fprintln(stderr, "leash:", exit.err)
	}
	return exit.status
}

// newRoot makes the tree of commands. Each use needs its own, because cobra keeps parsed flags.
func newRoot(stdout io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "leash",
		Short:         "Commands that speak to a running Leash",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(stdout)
	var servers serverList
	f := root.PersistentFlags()
	f.StringVar(&servers.text, "server", defaultServer(),
		"address of a Leash, or several with commas: host:port, unix:/path, redis:// or rediss:// URL")
	f.StringVar(&servers.passwordFile, "password-file", "", "file with the password for --server")
	f.StringVar(&servers.tls.CA, "tls-ca", "",
		"file with the authorities that sign the certificate of a rediss:// URL, in PEM (default: those of the system)")
	f.StringVar(&servers.tls.Cert, "tls-cert", "", "file with the certificate to show to a rediss:// URL, in PEM")
	f.StringVar(&servers.tls.Key, "tls-key", "", "file with the key of --tls-cert, in PEM")
	root.AddCommand(newLock(&servers), newElect(&servers), newLocks(&servers), newBreak(&servers),
		newStatus(&servers), newHealth(&servers))
	return root
}

// ServerVariable is the environment variable for --server.
const ServerVariable = "LEASH_SERVER"

func defaultServer() string {
	if text := os.Getenv(ServerVariable); text != "" {
		return text
	}
	return "127.0.0.1:6380"
}

// silentLogger drops what the Redis library logs. The commands say themselves what went wrong.
type silentLogger struct{}

func (silentLogger) Printf(context.Context, string, ...any) {}
