package proxy_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
)

// heapBytes is the memory that the Go heap has obtained from the kernel.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys - m.HeapReleased)
}

// TestClientThatReadsNothing asks for 100,000 × 100 KB and reads nothing. Other clients are served,
// and memory stays bounded.
func TestClientThatReadsNothing(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "big", strings.Repeat("v", 100<<10))
	before := heapBytes()

	greedy, err := net.Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer greedy.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		get := strings.Repeat(redistest.Command("GET", "big"), 1000)
		for range 100 {
			_ = greedy.SetWriteDeadline(time.Now().Add(3 * time.Second))
			if _, err := io.WriteString(greedy, get); err != nil {
				return // Leash has stopped reading
			}
		}
	}()
	for range 2000 {
		client.Want(t, "+PONG\r\n", "PING")
		client.Want(t, ":102400\r\n", "STRLEN", "big")
	}
	<-sent
	if grown := heapBytes() - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

// TestThousandLargeSets pipelines many SETs of 16 MB and checks that memory stays bounded.
func TestThousandLargeSets(t *testing.T) {
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	value := strings.Repeat("v", 16<<20)
	set := redistest.Command("SET", "k", value)
	before := heapBytes()
	conn, err := net.Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const count = 60 // show what a thousand would
	go func() {
		for range count {
			if _, err := io.WriteString(conn, set); err != nil {
				return
			}
		}
	}()
	reply := make([]byte, len("+OK\r\n"))
	for i := range count {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+OK\r\n" {
			t.Fatalf("reply %d: %q, %v", i, reply, err)
		}
	}
	if grown := heapBytes() - before; grown > 160<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

// TestLargeReplyDelaysOthersLittle checks that a value of 300 MB reaches a fast and a slow reader.
// Other clients wait no longer than its transfer takes.
func TestLargeReplyDelaysOthersLittle(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	client := l.Dial(t)
	const size = 300 << 20
	client.Want(t, fmt.Sprintf(":%d\r\n", size), "SETRANGE", "huge", strconv.Itoa(size-1), "x")
	for _, pause := range []time.Duration{0, time.Millisecond} {
		conn, err := net.Dial("tcp", l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, redistest.Command("GET", "huge")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<20)
		header := fmt.Sprintf("$%d\r\n", size)
		for left := len(header) + size + 2; left > 0; {
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("%d bytes missing: %v", left, err)
			}
			left -= n
			time.Sleep(pause) // the client's own slowness
			if left < size && left+n >= size {
				// other commands on the same link, behind the large reply
				client.Want(t, "+OK\r\n", "SET", "other", "v")
			}
		}
		conn.Close()
	}
	client.Want(t, ":1\r\n", "DEL", "huge")
}

// TestSlowReaderIsDisconnected checks that a session ends when its client does not read and the
// output exceeds the limit.
func TestSlowReaderIsDisconnected(t *testing.T) {
	t.Parallel() // it waits most of the time
	if testing.Short() {
		t.Skip("takes the stall time-out")
	}
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.MaxClientOutput = 16 << 20 })
	client := l.Dial(t)
	client.Want(t, ":31457280\r\n", "SETRANGE", "k", strconv.Itoa(30<<20-1), "x")
	deaf, err := net.Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, redistest.Command("GET", "k")); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(proxy.StallTimeout + 10*time.Second)
	for l.Figures().Disconnections["output_limit"] == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the client is still there")
		}
		time.Sleep(10 * time.Millisecond) // between looks
	}
	client.Want(t, "+PONG\r\n", "PING")
}

func TestMaxClients(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.MaxClients = 2 })
	a, b := l.Dial(t), l.Dial(t)
	a.Want(t, "+PONG\r\n", "PING")
	b.Want(t, "+PONG\r\n", "PING")
	if got := proxytest.Exchange(t, l.Addr, "PING\r\n"); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("third client got %q", got)
	}
	a.Close()
	proxytest.Eventually(t, "a new client is accepted", func() bool { return l.Clients() == 1 })
	l.Dial(t).Want(t, "+PONG\r\n", "PING")
	l.Change(proxy.Settings{MaxClients: 3})
	l.Dial(t).Want(t, "+PONG\r\n", "PING")
	l.Change(proxy.Settings{MaxClients: 1})
	b.Want(t, "+PONG\r\n", "PING")
	if got := proxytest.Exchange(t, l.Addr, "PING\r\n"); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("fourth client got %q", got)
	}
}

// TestClientSendingByteByByte checks that a client that sends one byte at a time costs only the
// memory for its own bytes.
func TestClientSendingByteByByte(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	slow, client := l.Dial(t), l.Dial(t)
	for _, b := range []byte(redistest.Command("SET", "k", "v")) {
		if err := slow.Send(string(b)); err != nil {
			t.Fatal(err)
		}
		client.Want(t, "+PONG\r\n", "PING")
	}
	if got, err := slow.Read(); got != "+OK\r\n" {
		t.Fatal(got, err)
	}
}

// TestGoroutinesEnd checks that a thousand sessions leave no goroutine behind.
func TestGoroutinesEnd(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	l.Dial(t).Want(t, "+OK\r\n", "SET", "k", strings.Repeat("v", 1000))
	crowd := func() {
		var clients []*redistest.Client
		for range 50 {
			c, err := redistest.Dial(l.Addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Send(strings.Repeat(redistest.Command("GET", "k"), 20)); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		for _, c := range clients {
			c.Close() // with replies unread
		}
		proxytest.Eventually(t, "sessions end", func() bool { return l.Clients() == 1 })
	}
	crowd() // all that is started once has been
	time.Sleep(100 * time.Millisecond)
	before := runtime.NumGoroutine()
	for range 20 {
		crowd()
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		}
	})
	proxytest.Eventually(t, fmt.Sprintf("goroutines fall to %d", before), func() bool { return runtime.NumGoroutine() <= before })
}
