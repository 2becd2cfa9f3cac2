package timeslice

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Shorten asks for Short slices for every thread of the process, those to come included. No
// privilege is needed. Linux gives them since 6.12 (sched_setattr(2), sched_runtime of
// SCHED_OTHER); one before it takes no notice, and threads of another policy are left alone. The
// error is the kernel's refusal, which does no harm.
func Shorten() error {
	// a thread begins like the one that started it: until there is none of before
	for changed := true; changed; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		changed = false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			done, err := shorten(id)
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
			changed = changed || done
		}
	}
	return nil
}

// shorten reports whether the thread has a short slice that it had not.
func shorten(thread int) (changed bool, err error) {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL || attr.Runtime == uint64(Short) {
		return false, err
	}
	attr.Runtime = uint64(Short)
	if err := unix.SchedSetAttr(thread, attr, 0); err != nil {
		return false, err
	}
	attr, err = unix.SchedGetAttr(thread, 0)
	return err == nil && attr.Runtime == uint64(Short), err
}
