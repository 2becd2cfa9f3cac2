package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// settleTimeout is how long Leash may take to clean up after the last client has left.
const settleTimeout = 20 * time.Second

// settled checks the Leashes after all faults have ended and all clients have left. Each lock must
// be free soon: within the TTL of its last holder, plus the time by which a clock was set back. A
// Leash must keep nothing of its clients, and must not have crashed.
func (b *testbed) settled(before usage) error {
	for _, l := range b.leashes {
		if l.Crashed() {
			return fmt.Errorf("a leash has crashed: %s", l.LogTail())
		}
		// The log includes the time before a restart.
		if said, err := l.Said("panic", "DATA RACE"); err != nil || said != "" {
			return errors.Join(err, fmt.Errorf("a leash has said: %s", said))
		}
	}
	if err := b.prepare(); err != nil {
		return err
	}
	if err := b.takeAll(); err != nil {
		return err
	}
	var errs []error
	for _, l := range b.leashes {
		errs = append(errs, l.AwaitInfo(settleTimeout, "sessions:1", "pinned_connections:0", "holds:0", "waiters:0", "panics:0"))
	}
	return errors.Join(append(errs, b.leaks(before))...)
}

// awaitExpiry waits until the leases of the last trial have expired.
func (b *testbed) awaitExpiry() error {
	time.Sleep(history.TTL)
	return nil
}

// takeAll acquires every lock once, one after the other.
func (b *testbed) takeAll() error {
	c, err := redistest.Dial(b.leashes[0].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range b.realKeys() {
		args := []string{"LOCK.ACQUIRE", key, "BLOCK", ms(3*history.TTL + maxStep)}
		switch history.KindOf(key) {
		case "sem":
			args[0] = "SEM.ACQUIRE"
			args = append(args, "COUNT", strconv.Itoa(history.Permits))
		case "rw":
			args = append(args, "WRITE")
		case "fair":
			args = append(args, "FAIR")
		}
		if reply, err := c.Do(args...); err != nil || len(tokensOf(reply)) == 0 || tokensOf(reply)[0] == "" {
			return errors.Join(err, fmt.Errorf("%s cannot be had any more: %q", key, reply))
		}
	}
	return nil
}

// usage is what the Leashes use while they have no clients.
type usage struct {
	goroutines []int // of each Leash
	upstream   []int // connections at each node of the cluster
}

func (u usage) String() string {
	return fmt.Sprintf("goroutines %v, connections at Redis %v", u.goroutines, u.upstream)
}

var (
	goroutinesLine = regexp.MustCompile(`leash_goroutines:(\d+)`)
	clientLine     = regexp.MustCompile(`(?m)^id=.* flags=[NP] `)
)

func (b *testbed) usage() (u usage, err error) {
	for _, l := range b.leashes {
		n, err := ask(l.Addr, goroutinesLine, "INFO", "leash")
		if err != nil {
			return u, err
		}
		u.goroutines = append(u.goroutines, n)
	}
	for _, n := range b.cluster.Nodes {
		c, err := redistest.Dial(n.Server.Addr)
		if err != nil {
			return u, err
		}
		reply, err := c.Do("CLIENT", "LIST")
		if err = errors.Join(err, c.Close()); err != nil {
			return u, err
		}
		u.upstream = append(u.upstream, len(clientLine.FindAllString(reply, -1)))
	}
	return u, nil
}

// ask sends a command, and returns the number that a pattern finds in the reply.
func ask(addr string, pattern *regexp.Regexp, args ...string) (int, error) {
	c, err := redistest.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	reply, err := c.Do(args...)
	if err != nil {
		return 0, err
	}
	m := pattern.FindStringSubmatch(reply)
	if m == nil {
		return 0, fmt.Errorf("%v was answered %q", args, reply)
	}
	return strconv.Atoi(m[1])
}

const (
	// This many more goroutines are allowed. They belong to pooled connections.
	goroutineSlack = 30
	// Each Leash keeps up to 64 connections to a node for its scripts.
	upstreamSlack = 2 * 64
	// Leash keeps a pinned connection open for 30 s after its use. It must be closed within this
	// time.
	leakTimeout = 45 * time.Second
)

// leaks returns an error if the Leashes use more than before they had clients.
func (b *testbed) leaks(before usage) error {
	for deadline := time.Now().Add(leakTimeout); ; time.Sleep(200 * time.Millisecond) {
		now, err := b.usage()
		if err == nil && !now.exceeds(before) {
			b.log.Info("nothing leaked", "before the clients came", before, "now", now)
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("leaked: before the clients came %v; now that they have gone %v%s", before, now, b.goroutines()))
		}
	}
}

// goroutines ends the Leashes, and returns the stacks of their goroutines.
func (b *testbed) goroutines() string {
	var text strings.Builder
	for i, l := range b.leashes {
		said, err := l.Goroutines()
		fmt.Fprintf(&text, "\n%s\n%s", history.LeashName(i), cmp.Or(said, fmt.Sprint(err)))
	}
	return text.String()
}

func (u usage) exceeds(before usage) bool {
	for i, n := range u.goroutines {
		if n > before.goroutines[i]+goroutineSlack {
			return true
		}
	}
	for i, n := range u.upstream {
		if n > before.upstream[i]+upstreamSlack {
			return true
		}
	}
	return false
}
