package renewal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: it ends as a context of the standard library does that has the same deadline.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, asks := range []bool{false, true} { // for Done, which needs a timer, before the end
			begin := func(parent context.Context) *patience {
				p := newPatience(parent, time.Now().Add(time.Second))
				if asks {
					p.Done()
				}
				if err := p.Err(); err != nil {
					t.Errorf("got %v at once", err)
				}
				return p
			}
			check := func(name string, p *patience, want error) {
				t.Helper()
				select {
				case <-p.Done():
				default:
					t.Errorf("%s: it is not done", name)
				}
				if err := p.Err(); !errors.Is(err, want) {
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

func TestPatienceHasTheEarlierDeadline(t *testing.T) {
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	for _, times := range [][2]time.Time{{soon, later}, {later, soon}} {
		parent, cancel := context.WithDeadline(t.Context(), times[0])
		p := newPatience(parent, times[1])
		if at, ok := p.Deadline(); !ok || !at.Equal(soon) {
			t.Errorf("got %v %v, want %v", at, ok, soon)
		}
		p.end()
		cancel()
	}
}

// TestPatienceCostsNoTimer: nor does a child of it cost a goroutine, which would outlive the
// bubble.
func TestPatienceCostsNoTimer(t *testing.T) {
	ctx, until := t.Context(), time.Now().Add(time.Minute)
	if n := testing.AllocsPerRun(100, func() {
		p := newPatience(ctx, until)
		p.Deadline()
		p.Err()
		p.end()
	}); n > 1 {
		t.Errorf("got %v allocations, want one", n)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPatience(t.Context(), time.Now().Add(time.Minute))
		child, cancel := context.WithCancel(p)
		if _, ok := child.Deadline(); !ok {
			t.Error("a child has no deadline")
		}
		p.end()
		synctest.Wait()
		if child.Err() == nil {
			t.Error("a child goes on")
		}
		cancel()
	})
}
