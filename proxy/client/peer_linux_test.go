package client

import (
	"testing"
	"time"
)

func TestKeepAliveFor(t *testing.T) {
	for timeout, want := range map[time.Duration][2]time.Duration{
		11 * time.Second:        {5 * time.Second, 2 * time.Second},
		4 * time.Second:         {time.Second, time.Second},
		10 * time.Second:        {7 * time.Second, time.Second},
		10*time.Second + 1:      {5 * time.Second, 2 * time.Second},
		20 * time.Second:        {11 * time.Second, 3 * time.Second},
		60 * time.Second:        {30 * time.Second, 10 * time.Second},
		4500 * time.Millisecond: {2 * time.Second, time.Second},
	} {
		got := keepAliveFor(timeout)
		silence := got.Idle + time.Duration(got.Count)*got.Interval
		if got.Idle != want[0] || got.Interval != want[1] || silence < timeout || silence >= timeout+time.Second {
			t.Errorf("%v: idle %v, interval %v, want %v", timeout, got.Idle, got.Interval, want)
		}
	}
}
