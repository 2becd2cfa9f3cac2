package embedded

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// start returns a client of a new server; both end with the test.
func start(t *testing.T) (*Server, *redis.Client) {
	t.Helper()
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	return s, rdb
}

// eventually polls until ok returns true. It fails after 10 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 10s: %s", what)
		}
	}
}

func TestKeysExpireByThemselves(t *testing.T) {
	s, rdb := start(t)
	ctx := t.Context()
	const ttl = 200 * time.Millisecond
	began := time.Now()
	if err := rdb.Set(ctx, "k", "v", ttl).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "stays", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	// Not by a command, because a command itself might expire the key.
	eventually(t, "the key ends", func() bool { return !s.redis.Exists("k") })
	if lived := time.Since(began); lived < ttl-5*Tick {
		t.Errorf("the key lived %v, want about %v", lived, ttl)
	}
	if n := rdb.Exists(ctx, "stays").Val(); n != 1 {
		t.Error("a key without a TTL has expired")
	}
}

func TestPTTLFalls(t *testing.T) {
	_, rdb := start(t)
	ctx := t.Context()
	rdb.Set(ctx, "k", "v", time.Minute)
	began := time.Now()
	eventually(t, "100 ms of the key's life are over", func() bool {
		return rdb.PTTL(ctx, "k").Val() <= time.Minute-100*time.Millisecond
	})
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("100 ms took %v", took)
	}
}

// TestTimeMovesOnInScripts: scripts make fencing tokens from TIME.
func TestTimeMovesOnInScripts(t *testing.T) {
	_, rdb := start(t)
	micros := func() int64 {
		t.Helper()
		s, err := rdb.Eval(t.Context(), `local t = redis.call('TIME'); return string.format('%.0f', t[1] * 1000000 + t[2])`, nil).Text()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := micros()
	if off := time.Since(time.UnixMicro(first)).Abs(); off > time.Minute {
		t.Errorf("TIME is %v off", off)
	}
	eventually(t, "TIME moves on", func() bool { return micros() > first })
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$1\r\n0\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "BLPOP waits", func() bool { return s.redis.Server().TotalCommands() > 0 })
	addr := s.Addr()
	s.Close()
	s.Close()
	if s.Addr() != addr {
		t.Errorf("the address changed to %q", s.Addr())
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("still listening")
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestContextEndsEverything(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("enough"))
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the server runs after its context has ended")
	}
	s.Close()
}

// TestCloseIsBounded: miniredis can't end a script.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel() // it waits most of the time
	s, rdb := start(t)
	// The script ends by itself after the test, but later than Close may take.
	script := `local t = redis.call('TIME')[1] + 10; while redis.call('TIME')[1] + 0 < t do end return 1`
	answered := make(chan error, 1)
	go func() { answered <- rdb.Eval(context.Background(), script, nil).Err() }()
	busy := 0 // checks in a row; an expiry run holds the lock for much less time
	eventually(t, "the script runs", func() bool {
		busy++
		if s.redis.TryLock() {
			s.redis.Unlock()
			busy = 0
		}
		return busy == 20
	})
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > closeTimeout+5*time.Second {
		t.Errorf("Close took %v", took)
	}
	<-answered
	<-s.done
}

func TestPause(t *testing.T) {
	for cost, want := range map[time.Duration]time.Duration{
		0:                     Tick,
		time.Millisecond:      Tick,
		30 * time.Millisecond: 270 * time.Millisecond,
	} {
		if got := pause(cost); got != want {
			t.Errorf("%v: got %v, want %v", cost, got, want)
		}
	}
}
