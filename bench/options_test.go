package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptions(t *testing.T) {
	opt, err := parseOptions([]string{"--only", "redis,leash", "--leash-flags", "--threads 1", "--leash-flags", "--threads 2", "--pipeline", "1,64"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !opt.wants(toRedis) || !opt.wants(toLeash) || opt.wants(toCluster) {
		t.Errorf("--only: got %q", opt.only)
	}
	if len(opt.leashFlags) != 2 || len(opt.pipelines) != 2 || opt.clients != 50 || opt.valueSize != 64 {
		t.Errorf("got %+v", opt)
	}
	if opt, err := parseOptions([]string{"--tls"}, io.Discard); err != nil || !opt.wants(toLeashTLS) || opt.wants(toNutcracker) {
		t.Errorf("--tls: got %+v, %v", opt, err)
	}
	if opt, err := parseOptions(nil, io.Discard); err != nil || opt.wants(toLeashTLS) || !opt.wants(toNutcracker) || len(opt.leashFlags) != 1 {
		t.Errorf("default: got %+v, %v", opt, err)
	}
}

func TestOptionsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--clients 0":          "--clients 0: give 1 to 10000",
		"--value-size 2000000": "--value-size 2000000: give 1 to 1048576",
		"--keys 0":             "--keys 0: give",
		"--sets 101":           "--sets 101: give",
		"--rounds 0":           "--rounds 0: give",
		"--pipeline 1,0":       "--pipeline 0: give",
		"--round 1ms":          "--round 1ms: give 100ms to 1m",
		"--warmup 2m":          "--warmup 2m0s: give 0s to 1m",
		"--only predixy":       `--only "predixy": give some of redis`,
		"--tls --only redis":   "--tls and --only both name targets: give one of them",
		"--threads 1":          "unknown flag: --threads",
		"leash":                `unexpected argument "leash"`,
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out strings.Builder
	if _, err := parseOptions([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("got %v, want ErrHelp", err)
	}
	if !strings.Contains(out.String(), "--leash-flags flags") {
		t.Errorf("got %s", out.String())
	}
}
