package main

import (
	"errors"
	"fmt"
	"time"
)

// rare is how often each kind of lock, counter and latch must have been had at least: they are many
// times as often where a run is worth anything.
const rare = 5 * time.Second

// coverage is an error when a run proves less than it seems to: a fault was tried and never struck,
// or hardly anybody had locks of some kind.
func (h *history) coverage(opt options, missed []string) error {
	var errs []error
	for _, name := range missed {
		errs = append(errs, fmt.Errorf("%q was tried and never struck; --verbose tells why", name))
	}
	had := make(map[string]int)
	h.mu.Lock()
	for key, ops := range h.byKey {
		for _, o := range ops {
			if in := o.Input.(op); in.action != end && in.action != inner {
				had[kindOf(key)]++
			}
		}
	}
	h.mu.Unlock()
	for _, kind := range opt.kinds {
		if want := int(opt.length / rare); had[kind] < want {
			errs = append(errs, fmt.Errorf("%d times somebody had something of the kind %q: a run of %v that is worth anything has at least %d", had[kind], kind, opt.length, want))
		}
	}
	return errors.Join(errs...)
}
