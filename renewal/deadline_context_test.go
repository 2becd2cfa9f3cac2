package renewal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineContext: It ends like a context of the standard library with the same deadline.
func TestDeadlineContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, asks := range []bool{false, true} { // whether Done, which needs a timer, is called before the end
			begin := func(parent context.Context) *deadlineContext {
				c := newDeadlineContext(parent, time.Now().Add(time.Second))
				if asks {
					c.Done()
				}
				if err := c.Err(); err != nil {
					t.Errorf("got %v at once", err)
				}
				return c
			}
			check := func(name string, c *deadlineContext, want error) {
				t.Helper()
				select {
				case <-c.Done():
				default:
					t.Errorf("%s: it is not done", name)
				}
				if err := c.Err(); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
			}

			late := begin(t.Context())
			time.Sleep(time.Second)
			synctest.Wait()
			check("its time is over", late, context.DeadlineExceeded)
			late.end()

			ended := begin(t.Context())
			ended.end()
			check("ended", ended, context.Canceled)

			parent, cancel := context.WithCancel(t.Context())
			child := begin(parent)
			cancel()
			check("the parent has ended", child, context.Canceled)
			child.end()
		}
	})
}

func TestDeadlineContextHasTheEarlierDeadline(t *testing.T) {
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	for _, times := range [][2]time.Time{{soon, later}, {later, soon}} {
		parent, cancel := context.WithDeadline(t.Context(), times[0])
		c := newDeadlineContext(parent, times[1])
		if at, ok := c.Deadline(); !ok || !at.Equal(soon) {
			t.Errorf("got %v %v, want %v", at, ok, soon)
		}
		c.end()
		cancel()
	}
}

// TestDeadlineContextCostsNoTimer: It needs no timer, and a child of it needs no goroutine. A
// goroutine would outlive the bubble.
func TestDeadlineContextCostsNoTimer(t *testing.T) {
	ctx, until := t.Context(), time.Now().Add(time.Minute)
	if n := testing.AllocsPerRun(100, func() {
		c := newDeadlineContext(ctx, until)
		c.Deadline()
		c.Err()
		c.end()
	}); n > 1 {
		t.Errorf("got %v allocations, want one", n)
	}
	synctest.Test(t, func(t *testing.T) {
		c := newDeadlineContext(t.Context(), time.Now().Add(time.Minute))
		child, cancel := context.WithCancel(c)
		if _, ok := child.Deadline(); !ok {
			t.Error("a child has no deadline")
		}
		c.end()
		synctest.Wait()
		if child.Err() == nil {
			t.Error("a child goes on")
		}
		cancel()
	})
}
