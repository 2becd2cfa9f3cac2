package cli

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestLockRunsAProgram: the program gets the fencing token and the streams. Its exit status is that
// of the command, and the lock is free afterwards.
func TestLockRunsAProgram(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, redis)
	for _, mode := range [][]string{nil, {"--read"}, {"--write"}, {"--fair"}} {
		args := append([]string{"lock", "k"}, mode...)
		r := start(t, l.Addr, append(args, "--", "sh", "-c", `read line; echo "$line $LEASH_TOKEN"; exit 3`)...)
		if got := r.status(); got != 3 {
			t.Fatalf("%v: got status %d, %s", mode, got, r.errors())
		}
		line, token, _ := strings.Cut(strings.TrimSuffix(r.out(), "\n"), " t")
		if words := strings.Fields(r.out()); len(words) != 3 || len(words[2]) < 10 {
			t.Errorf("%v: got %q, %q, %q", mode, r.out(), line, token)
		}
		if reply := send(t, l.Addr, "LOCK.INFO", "k"); reply != "$-1" {
			t.Errorf("%v: the lock is not free: %q", mode, reply)
		}
	}
	start(t, l.Addr, "lock", "k", "--fence-env", "FENCE", "--", "sh", "-c", `test "$FENCE" && echo "$LEASH_TOKEN"`).want(0, "\n")
}

// TestLockThatIsTaken: without --wait the program does not run. With it, it runs when the lock is
// free, or not when the time is over.
func TestLockThatIsTaken(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	holder := start(t, l.Addr, "lock", "k", "--", "sh", "-c", "echo held; sleep 100")
	holder.says()
	start(t, l.Addr, "lock", "k", "--", "echo", "no").want(exitTaken, "")
	start(t, l.Addr, "lock", "k", "--wait", "50ms", "--", "echo", "no").want(exitTaken, "")
	waiter := start(t, l.Addr, "lock", "k", "--wait", "0", "--", "echo", "mine")
	awaitWaiters(t, l.Addr, 1)
	holder.cmd.Process.Signal(syscall.SIGTERM)
	waiter.want(0, "mine\n")
	holder.want(exitSignal+int(syscall.SIGTERM), "held\n")
}

// awaitWaiters waits until n clients wait for the lock k.
func awaitWaiters(t *testing.T, addr string, n int) {
	t.Helper()
	eventually(t, "clients wait for the lock", func() bool {
		return strings.HasSuffix(send(t, addr, "LOCK.INFO", "k"), "waiters\r\n:"+strconv.Itoa(n))
	})
}

// TestSignalsPassThrough: the program gets them, and decides what they mean.
func TestSignalsPassThrough(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	script := `trap 'echo usr1' USR1; trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done`
	r := start(t, l.Addr, "lock", "k", "--", "sh", "-c", script)
	r.says()
	r.cmd.Process.Signal(syscall.SIGUSR1)
	eventually(t, "it gets SIGUSR1", func() bool { return r.out() == "ready\nusr1\n" })
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.want(7, "ready\nusr1\n")
	start(t, l.Addr, "lock", "k", "--", "sh", "-c", "kill -9 $$").want(exitSignal+9, "")
}

// TestInterruptedWait: a signal ends the wait, and nobody waits any more.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	start(t, l.Addr, "lock", "k", "--", "sh", "-c", "echo held; sleep 100").says()
	r := start(t, l.Addr, "lock", "k", "--wait", "0", "--", "echo", "no")
	awaitWaiters(t, l.Addr, 1)
	r.cmd.Process.Signal(syscall.SIGINT)
	r.want(exitSignal+int(syscall.SIGINT), "")
	awaitWaiters(t, l.Addr, 0)
}

// TestLossEndsTheProcessGroup: when the lock is broken, the program ends, with all it has started.
func TestLossEndsTheProcessGroup(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	r := start(t, l.Addr, "lock", "k", "--", "sh", "-c", `trap '' TERM; sh -c 'trap "" TERM; echo $$; sleep 100'; true`)
	pid := r.pid()
	start(t, l.Addr, "break", "k").want(0, "the lock is broken, its holder was told\n")
	if got := r.status(); got != exitLost || !strings.Contains(r.errors(), "the lock is lost: broken") {
		t.Errorf("got status %d, %s", got, r.errors())
	}
	gone(t, pid)
}

// TestLockOutlivesItsLeash: when one Leash dies, the lock moves to the next one of the list, with
// its token. Nobody else gets it, and the program goes on.
func TestLockOutlivesItsLeash(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startLeash(t, redis), startLeash(t, redis)
	r := start(t, a.Addr+","+b.Addr, "lock", "k", "--", "sh", "-c", "echo $LEASH_TOKEN; sleep 100")
	token := r.says()
	a.Kill()
	if err := b.AwaitInfo(soon, "holds:1"); err != nil {
		t.Fatal(err)
	}
	if reply := send(t, b.Addr, "LOCK.CHECK", "k", "TOKEN", token); reply != ":1" {
		t.Errorf("got %q", reply)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.want(exitSignal+int(syscall.SIGTERM), token+"\n")
	if reply := send(t, b.Addr, "LOCK.INFO", "k"); reply != "$-1" {
		t.Errorf("the lock is not free: %q", reply)
	}
}

// TestProgramEndsBeforeItsLock: no Leash is left that renews the lock. A program that ignores
// SIGTERM is killed before somebody else gets the lock.
func TestProgramEndsBeforeItsLock(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startLeash(t, redis, "--watchdog-timeout", "4s"), startLeash(t, redis)
	r := start(t, a.Addr, "lock", "k", "--", "sh", "-c", `trap '' TERM; echo $$; while :; do sleep 0.05; done`)
	pid := r.says()
	a.Kill()
	next := start(t, b.Addr, "lock", "k", "--wait", "30s", "--", "sh", "-c", "kill -0 "+pid+" 2>/dev/null && echo alive || echo dead")
	next.want(0, "dead\n")
	r.want(exitLost, pid+"\n")
}

// TestProgramDiesWithLeashLock: a killed leash lock takes its program along, and its lock runs out.
func TestProgramDiesWithLeashLock(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, redis)
	r := start(t, l.Addr, "lock", "k", "--", "sh", "-c", "echo $$; exec sleep 100")
	pid := r.pid()
	r.cmd.Process.Kill()
	gone(t, pid)
	if err := l.AwaitInfo(soon, "holds:0"); err != nil {
		t.Error(err)
	}
	if left := redis.Client().PTTL(t.Context(), "k").Val(); left <= 0 || left > 30*time.Second {
		t.Errorf("the lock does not run out: %v", left)
	}
}

// TestPermits: the program holds the permits as long as it runs, and they cannot be used by others.
func TestPermits(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	start(t, l.Addr, "lock", "k", "--permits", "1", "--", "echo", "no").want(exitTaken, "")
	send(t, l.Addr, "SEM.INIT", "k", "3")
	r := start(t, l.Addr, "lock", "k", "--permits", "2", "--", "sh", "-c", "echo held; sleep 100")
	r.says()
	start(t, l.Addr, "lock", "k", "--permits", "2", "--", "echo", "no").want(exitTaken, "")
	start(t, l.Addr, "lock", "k", "--permits", "1", "--", "echo", "yes").want(0, "yes\n")
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.want(exitSignal+int(syscall.SIGTERM), "held\n")
	start(t, l.Addr, "lock", "k", "--permits", "3", "--", "echo", "all").want(0, "all\n")
	r = start(t, l.Addr, "lock", "k", "--permits", "3", "--", "sh", "-c", "trap '' TERM; echo held; while :; do sleep 0.05; done")
	r.says()
	l.Kill()
	r.want(exitLost, "held\n")
}

// TestProgramEndsWhileRedisIsSilent: Leash lives, but Redis says nothing. So the lock is not
// renewed, and the program ends.
func TestProgramEndsWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, redis, "--watchdog-timeout", "4s")
	r := start(t, l.Addr, "lock", "k", "--", "sh", "-c", `trap 'echo ends; exit 0' TERM; echo runs; while :; do sleep 0.05; done`)
	r.says()
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	r.want(exitLost, "runs\nends\n")
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
}
