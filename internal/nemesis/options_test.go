package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParseOptions(t *testing.T) {
	opt, err := parseOptions([]string{"--for", "1m", "--seed", "7", "--faults", "cut,kill"}, io.Discard)
	if err != nil || opt.length != time.Minute || opt.seed != 7 || opt.clients != 40 || len(opt.faults) != 2 {
		t.Errorf("got %+v, %v", opt, err)
	}
	if opt, err := parseOptions(nil, io.Discard); err != nil || opt.seed == 0 || opt.length != 3*time.Minute || len(opt.faults) != 0 {
		t.Errorf("no flags: got %+v, %v", opt, err)
	}
	for _, args := range [][]string{
		{"--for", "0s"}, {"--clients", "0"}, {"--kinds", "lock,no"}, {"--faults", "no such"}, {"--sabotage", "owner,none"}, {"--sabotage", "owner", "--other", "x"}, {"--no"}, {"word"},
		{"--faults", "flushall"}, // it needs --forget
	} {
		if _, err := parseOptions(args, io.Discard); err == nil || errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%v: got %v, want an error", args, err)
		}
	}
}

// TestHelp: the help says what the program does, and lists the faults.
func TestHelp(t *testing.T) {
	var out strings.Builder
	if _, err := parseOptions([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"two clients believe", "--sabotage", "\n  network: cut\n", "\n  redis: flushall (with --forget)\n", "\n  clock: stepped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help has no %q: %s", want, out.String())
		}
	}
}
