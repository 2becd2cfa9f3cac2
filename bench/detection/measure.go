package detection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/internal/redistest"
)

// tolerance is how much longer than its settings allow a lock may stay before the measurement
// fails.
const tolerance = time.Minute

// Measure runs all failures, in the network namespace, and returns the table.
func Measure(ctx context.Context, opt Options) (_ [][]string, err error) {
	s, err := newTestbed(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	rows := opt.chosen()
	times := make([][]time.Duration, len(rows))
	for round := range opt.Rounds {
		fmt.Fprintf(os.Stderr, "bench: round %d of %d\n", round+1, opt.Rounds)
		errs := make([]error, len(rows))
		var happening sync.WaitGroup
		for i, m := range rows {
			happening.Go(func() {
				took, err := s.measure(ctx, m, fmt.Sprintf("lock:%d:%d", i, round))
				if err != nil {
					errs[i] = fmt.Errorf("%s: %w", m.name, err)
					return
				}
				times[i] = append(times[i], took)
			})
		}
		happening.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return opt.table(rows, times), nil
}

// measure runs one failure and returns how long the next waiter had to wait after it.
func (s *testbed) measure(ctx context.Context, m failure, key string) (time.Duration, error) {
	p, err := m.stage(ctx, s, key)
	if err != nil {
		return 0, err
	}
	defer p.end()
	next, err := s.await(ctx, p, key)
	if err != nil {
		return 0, err
	}
	defer next.Close()
	if !p.atOnce { // at any moment between two renewals
		select {
		case <-time.After(rand.N(s.opt.TTL / 3)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	start := time.Now()
	if err := p.fail(); err != nil {
		return 0, err
	}
	unblock := context.AfterFunc(ctx, func() { next.Close() })
	defer unblock()
	reply, err := next.Read()
	took := time.Since(start)
	if err == nil && reply[0] != ':' {
		err = fmt.Errorf("the next one was answered %q", reply)
	}
	return took, errors.Join(err, ctx.Err())
}

// await lets the next waiter wait.
func (s *testbed) await(ctx context.Context, p *trial, key string) (*redistest.Client, error) {
	next, err := redistest.Dial(p.far.Addr)
	if err != nil {
		return nil, err
	}
	next.Timeout = s.opt.TTL + s.opt.PeerTimeout + s.opt.MaxHold + s.opt.NodeTimeout + tolerance
	if err := next.Send(redistest.Command("LOCK.ACQUIRE", key, "BLOCK", "0")); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	c, err := redistest.Dial(p.far.Addr)
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	defer c.Close()
	for deadline := time.Now().Add(tolerance); ; time.Sleep(time.Millisecond) { // between checks
		info, err := c.Do("LOCK.INFO", key)
		if strings.Contains(info, "$7\r\nwaiters\r\n:1\r\n") {
			return next, nil
		}
		if err != nil || ctx.Err() != nil || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("nobody waits for %s: %q", key, info), err, ctx.Err(), next.Close())
		}
	}
}

// table has the medians and the extremes of the rows. It compares them with Redisson, whose locks
// stay for between two thirds of its lease and all of it.
func (o Options) table(rows []failure, times [][]time.Duration) [][]string {
	table := [][]string{{"the holder", "freed by", "median s", "min..max s", "Redisson s"}}
	for i, m := range rows {
		all := slices.Sorted(slices.Values(times[i]))
		if len(all) == 0 {
			continue
		}
		redisson := ""
		if m.redisson {
			redisson = fmt.Sprintf("%.0f..%.0f", (o.TTL * 2 / 3).Seconds(), o.TTL.Seconds())
		}
		table = append(table, []string{
			m.name, m.by, seconds(all[len(all)/2]), seconds(all[0]) + ".." + seconds(all[len(all)-1]), redisson,
		})
	}
	return table
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
