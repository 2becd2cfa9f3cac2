package testbed

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func redisArgs(port int) ([]string, error) {
	return []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", ""}, nil
}

func TestChild(t *testing.T) {
	c, err := startChild(t.Context(), t.TempDir(), "redis-server", redisArgs)
	if err != nil {
		t.Fatal(err)
	}
	used, err := CPUTime(c.PID())
	if err != nil || used <= 0 || used > 10*time.Second {
		t.Errorf("cpu time: got %v, %v", used, err)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", c.Addr); err == nil {
		conn.Close()
		t.Error("still listening")
	}
	if err := c.stop(); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if _, err := CPUTime(c.PID()); err == nil {
		t.Error("an ended process has a cpu clock")
	}
}

func TestChildThatEnds(t *testing.T) {
	_, err := startChild(t.Context(), t.TempDir(), "redis-server", func(int) ([]string, error) { return []string{"--nonsense"}, nil })
	if err == nil || !strings.Contains(err.Error(), "it ended at once") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want that it ended, and its output", err)
	}
}

func TestChildThatNeverListens(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := startChild(ctx, t.TempDir(), "sleep", func(int) ([]string, error) { return []string{"60"}, nil })
	if err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("got %v, want not ready", err)
	}
}

func TestChildThatCannotBeStarted(t *testing.T) {
	if _, err := startChild(t.Context(), t.TempDir(), "/nonexistent", redisArgs); err == nil {
		t.Error("no error")
	}
}

// TestCPUTimeOfThisProcess compares cpuTime with the work of this process.
func TestCPUTimeOfThisProcess(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; {
		after, err := CPUTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after-before > 20*time.Millisecond {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("30s of looking cost %v", after-before)
		}
	}
}

func TestLastHeap(t *testing.T) {
	const trace = "gc 1 @0.004s 6%: 0.02+0.75+0.03 ms clock, 0.09+0.1/0.3/0+0.1 ms cpu, 3->4->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 4 P\n" +
		"level=INFO msg=\"gc 9 is no line of these\"\n" +
		"gc 2 @0.1s 6%: 0.02+0.75+0.03 ms clock, 0.09+0.1/0.3/0+0.1 ms cpu, 300->400->217 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 4 P\n"
	if got := lastHeap(trace); got != 217 {
		t.Errorf("got %d MB, want 217", got)
	}
	if got := lastHeap(""); got != 0 {
		t.Errorf("got %d MB of no trace, want 0", got)
	}
}
