package timeslice

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Threads that were there, and threads that come later, have short slices, where the kernel knows
// such.
func TestShorten(t *testing.T) {
	stop := make(chan struct{})
	var threads, ready sync.WaitGroup
	defer threads.Wait()
	defer close(stop)
	start := func() {
		for range 5 {
			ready.Add(1)
			threads.Go(func() {
				runtime.LockOSThread() // and it ends with the goroutine
				ready.Done()
				<-stop
			})
		}
		ready.Wait()
	}
	start()
	if err := Shorten(); err != nil {
		t.Fatal(err)
	}
	start()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) < 10 {
		t.Fatalf("%d threads, want those of 10 goroutines at least", len(tasks))
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			continue // it has ended
		}
		if attr.Runtime != uint64(Short) && attr.Runtime != 0 { // Linux before 6.12 tells of none
			t.Errorf("thread %d has slices of %d ns, want %v", id, attr.Runtime, Short)
		}
	}
}
