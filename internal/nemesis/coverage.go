package main

import (
	"errors"
	"fmt"
	"time"
)

// maxMeanInterval is the longest mean time between two uses of a kind of lock, counter or latch. A
// useful run uses each kind many times as often.
const maxMeanInterval = 5 * time.Second

// coverage returns an error when a run proves less than it seems to. That is so when a fault was
// tried and never happened, or when clients used some kind of lock too rarely.
func (h *history) coverage(opt options, missed []string) error {
	var errs []error
	for _, name := range missed {
		errs = append(errs, fmt.Errorf("%q was tried and never happened; --verbose says why", name))
	}
	had := make(map[string]int)
	h.mu.Lock()
	for key, ops := range h.byKey {
		for _, o := range ops {
			if in := o.Input.(op); in.action != end && in.action != innerRelease {
				had[kindOf(key)]++
			}
		}
	}
	h.mu.Unlock()
	for _, kind := range opt.kinds {
		if want := int(opt.length / maxMeanInterval); had[kind] < want {
			errs = append(errs, fmt.Errorf("clients used the kind %q only %d times: a useful run of %v has at least %d uses", kind, had[kind], opt.length, want))
		}
	}
	return errors.Join(errs...)
}
