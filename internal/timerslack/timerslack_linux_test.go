package timerslack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// helper is set for the test binary when it is to be a program that widens its slack.
const helper = "LEASH_TEST_SLACK"

func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		os.Exit(m.Run())
	}
	pid := os.Getpid()
	Widen()
	report(pid)
}

// report says what the threads of this process have as slack, and what it was started as.
func report(pid int) {
	own, err := get()
	fmt.Println(os.Getpid() == pid, strings.Join(os.Args[1:], ","), own, err)
	tasks, _ := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/" + filepath.Base(task) + "/timerslack_ns")
		fmt.Println(strings.TrimSpace(string(text)), err)
	}
}

// TestWiden: the program is the same, with the same arguments, and a thread that was there before
// main has the wide slack.
func TestWiden(t *testing.T) {
	for _, arg := range []string{"", "a b"} {
		cmd := exec.Command(os.Args[0], "first", arg)
		cmd.Env = append(os.Environ(), helper+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if want := fmt.Sprintf("true first,%s %d <nil>", arg, usual); lines[0] != want {
			t.Errorf("got %q, want %q", lines[0], want)
		}
		if !strings.Contains(strings.Join(lines[1:], "\n"), fmt.Sprint(wide)) {
			t.Errorf("no thread has the wide slack: %q", lines[1:])
		}
	}
}

// TestNarrow: what a thread starts has the slack that the thread has.
func TestNarrow(t *testing.T) {
	runtime.LockOSThread() // and not unlocked: the thread ends with this goroutine
	if err := set(wide); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{wide, usual} {
		out, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != fmt.Sprint(want) {
			t.Errorf("a child has a slack of %s ns, %v, want %d", got, err, want)
		}
		Narrow()
	}
}
