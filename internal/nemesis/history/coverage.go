package history

import (
	"errors"
	"fmt"
	"time"
)

// maxMeanInterval is the longest mean time between two uses of a kind of lock, counter or latch. A
// useful run uses each kind many times as often.
const maxMeanInterval = 5 * time.Second

// Coverage returns an error when a run proves less than it seems to. That is so when a fault was
// tried and never happened, or when clients used some kind of lock too rarely.
func (h *History) Coverage(kinds []string, length time.Duration, missed []string) error {
	var errs []error
	for _, name := range missed {
		errs = append(errs, fmt.Errorf("%q was tried and never happened; --verbose says why", name))
	}
	had := make(map[string]int)
	h.mu.Lock()
	for key, ops := range h.ByKey {
		for _, o := range ops {
			if in := o.Input.(Op); in.Action != End && in.Action != InnerRelease {
				had[KindOf(key)]++
			}
		}
	}
	h.mu.Unlock()
	for _, kind := range kinds {
		if want := int(length / maxMeanInterval); had[kind] < want {
			errs = append(errs, fmt.Errorf("clients used the kind %q only %d times: a useful run of %v has at least %d uses", kind, had[kind], length, want))
		}
	}
	return errors.Join(errs...)
}
