package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// usage is what a Leash needs.
type usage struct{ memory, goroutines, descriptors float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.1f MB resident, %.0f goroutines, %.0f descriptors", u.memory/1e6, u.goroutines, u.descriptors)
}

// runDrops opens and drops connections. It prints its figures to out.
func runDrops(opt options, out io.Writer) (err error) {
	bed, err := startTestbed(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	quiet, err := bed.latency(nil, 5*time.Second)
	if err != nil {
		return err
	}
	// A first, short round makes what Leash keeps for good: connections to Redis for each user.
	if err := bed.drop(opt, opt.drop/20); err != nil {
		return err
	}
	before, err := bed.settled()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	var dropping sync.WaitGroup
	var failure error
	began := time.Now()
	dropping.Go(func() { failure = bed.drop(opt, opt.drop); close(done) })
	busy, err := bed.latency(done, 0)
	dropping.Wait()
	if err = errors.Join(err, failure); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := bed.back(before)
	fmt.Fprintf(out, "%d connections opened and dropped in %v\n", opt.drop, took.Round(time.Millisecond))
	fmt.Fprintf(out, "before: %v\nafter:  %v\n", before, after)
	fmt.Fprintf(out, "another client's p50 and p99: quiet %v and %v, meanwhile %v and %v\n", at(quiet, 50), at(quiet, 99), at(busy, 50), at(busy, 99))
	return errors.Join(err, bed.unharmed())
}

// latency sends one command after the other and returns how long each took, in order of size. It
// ends with done, or after length if done is nil.
func (b *testbed) latency(done <-chan struct{}, length time.Duration) (all []time.Duration, err error) {
	c, err := b.friend(false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	key, end := b.keyAt(0, "latency"), time.Now().Add(length)
	for done != nil || time.Now().Before(end) {
		start := time.Now()
		if got, err := c.Do("SET", key, "v"); err != nil || got != "+OK\r\n" {
			return nil, errors.Join(err, fmt.Errorf("SET: got %q", got))
		}
		all = append(all, time.Since(start))
		select {
		case <-done:
			done, end = nil, time.Time{}
		case <-time.After(time.Millisecond):
		}
	}
	slices.Sort(all)
	return all, nil
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100].Round(time.Microsecond)
}

// settled waits until Leash serves no client, and returns what it needs then.
func (b *testbed) settled() (usage, error) {
	if err := b.awaitNobody(); err != nil {
		return usage{}, err
	}
	return b.usage()
}

// back waits until Leash needs about as much as before. Idle connections to Redis end after some
// time, and the collector returns memory slowly.
func (b *testbed) back(before usage) (u usage, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) {
		if u, err = b.settled(); err != nil {
			return u, err
		}
		if u.memory < before.memory*1.2+10e6 && u.goroutines <= before.goroutines+20 && u.descriptors <= before.descriptors+20 {
			return u, nil
		}
		if time.Now().After(end) {
			return u, fmt.Errorf("%v after the last connection, Leash needs more than before", patience)
		}
	}
}

// patience is how long Leash may take to need no more than before.
const patience = 3 * time.Minute

var adminAddr = regexp.MustCompile(`msg="admin port is open" address=(\S+)`)

// usage reads the metrics of Leash.
func (b *testbed) usage() (u usage, err error) {
	line, err := b.leash.Said("admin port is open")
	m := adminAddr.FindStringSubmatch(line)
	if m == nil {
		return u, errors.Join(err, errors.New("the log does not have the admin port"))
	}
	answer, err := http.Get("http://" + m[1] + "/metrics")
	if err != nil {
		return u, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for name, value := range map[string]*float64{"process_resident_memory_bytes": &u.memory, "go_goroutines": &u.goroutines,
		"process_open_fds": &u.descriptors} {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
		if found == nil {
			return u, errors.Join(err, errors.New("the metrics lack "+name))
		}
		*value, _ = strconv.ParseFloat(string(found[1]), 64)
	}
	return u, err
}
