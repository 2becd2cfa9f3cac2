package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"leash/bench/load"
	"leash/bench/testbed"
)

// nutcrackerConfig is a pool of one Redis with one connection, which is the default. The first
// value is the address to listen on, the second is Redis's address.
const nutcrackerConfig = `bench:
  listen: %s
  hash: fnv1a_64
  distribution: ketama
  redis: true
  preconnect: true
  auto_eject_hosts: false
  servers:
   - %s:1
`

// startNutcracker starts twemproxy in front of a Redis. If it is not installed, it is left out.
// That is an error if the options name it.
func (b *relays) startNutcracker(ctx context.Context, opt options, redisAddr string, redis []int) error {
	path, err := findNutcracker()
	if err != nil {
		if slices.Contains(opt.only, toNutcracker) {
			return err
		}
		testbed.Progress("nutcracker is not installed and left out")
		return nil
	}
	c, err := b.StartChild(ctx, path, func(port int) ([]string, error) {
		stats, err := testbed.FreePort()
		if err != nil {
			return nil, err
		}
		conf := filepath.Join(b.Dir, fmt.Sprintf("nutcracker-%d.yml", port))
		listen := "127.0.0.1:" + strconv.Itoa(port)
		text := fmt.Sprintf(nutcrackerConfig, listen, redisAddr)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return []string{"--conf-file", conf, "--stats-addr", "127.0.0.1", "--stats-port", strconv.Itoa(stats)}, nil
	})
	if err != nil {
		return err
	}
	b.targets = append(b.targets, target{name: toNutcracker, routes: []load.Route{{Addr: c.Addr}}, proxies: []int{c.PID()}, redis: redis})
	return nil
}

// findNutcracker also looks in Debian's directory for it, which is not on every user's PATH.
func findNutcracker() (string, error) {
	path, err := exec.LookPath("nutcracker")
	if err == nil {
		return path, nil
	}
	if path, debian := exec.LookPath("/usr/sbin/nutcracker"); debian == nil {
		return path, nil
	}
	return "", err
}
