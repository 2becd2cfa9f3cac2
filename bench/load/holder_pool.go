package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"leash/internal/redistest"
)

// A HolderPool is connections that take locks and keep them.
type HolderPool struct {
	members []*redistest.Client
	holds   int
}

// poolPipeline is how many locks a connection asks for at once. With more, the figures would
// include the buffers of connections.
const poolPipeline = 16

// NewHolderPool connects. Each connection takes a few locks and releases them, so that Leash has
// allocated what a connection needs.
func NewHolderPool(addr string, connections int) (*HolderPool, error) {
	c := &HolderPool{}
	for i := range connections {
		m, err := redistest.Dial(addr)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.members = append(c.members, m)
		var numbers []int
		for n := range poolPipeline {
			numbers = append(numbers, -1-i*poolPipeline-n)
		}
		for _, name := range []string{"LOCK.ACQUIRE", "LOCK.RELEASE"} {
			if err := ask(m, name, numbers); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
	}
	return c, nil
}

// Close ends the connections, and so releases what they hold.
func (c *HolderPool) Close() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.Close())
	}
	c.members = nil
	return errors.Join(errs...)
}

// Take acquires locks until the pool holds that many. It calls taken with the number of each new
// lock.
func (c *HolderPool) Take(ctx context.Context, holds int, taken func(numbers []int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, m := range c.members {
		var numbers []int
		for n := c.holds + i; n < holds; n += len(c.members) {
			numbers = append(numbers, n)
		}
		wg.Go(func() {
			for len(numbers) > 0 && ctx.Err() == nil {
				some := numbers[:min(poolPipeline, len(numbers))]
				numbers = numbers[len(some):]
				if err := ask(m, "LOCK.ACQUIRE", some); err != nil {
					cancel(err)
					return
				}
				taken(some)
			}
		})
	}
	wg.Wait()
	c.holds = max(c.holds, holds)
	return context.Cause(ctx)
}

// ask sends a command for each lock at once. The replies must be integers above 0: tokens, or the
// confirmation of a release.
func ask(m *redistest.Client, command string, numbers []int) error {
	var request strings.Builder
	for _, n := range numbers {
		request.WriteString(redistest.Command(command, holdKey(n)))
	}
	if err := m.Send(request.String()); err != nil {
		return err
	}
	for _, n := range numbers {
		reply, err := m.Read()
		if err != nil {
			return err
		}
		if reply[0] != ':' || reply == ":0\r\n" {
			return fmt.Errorf("%s %s was answered %q", command, holdKey(n), reply)
		}
	}
	return nil
}

func holdKey(n int) string { return fmt.Sprintf("bench:hold:%07d", n) }
