package program

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

const mib = 1 << 20

// TestLargeSetCostsLittleMoreThanItsValue: that holds for values in one or many writes, with and
// without other commands before and after.
func TestLargeSetCostsLittleMoreThanItsValue(t *testing.T) {
	t.Parallel()
	redistest.TakesLong(t)
	l, _ := startOne(t, time.Minute)
	for _, set := range []struct {
		name          string
		before, after string
		size          int
		step          int // bytes of the value in one write
		replies       string
	}{
		{"the largest", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "", 512 * mib, mib, "+OK\r\n"},
		{"again", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "", 512 * mib, mib, "+OK\r\n"},
		{"with options behind it", "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n", "$2\r\nEX\r\n$3\r\n100\r\n", 256 * mib, mib, "+OK\r\n"},
		{"in small pieces", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "", 256 * mib, 10_000, "+OK\r\n"},
		{"behind others", strings.Repeat("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", 100) + "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "", 256 * mib, mib, strings.Repeat("$-1\r\n", 100) + "+OK\r\n"},
		{"in a transaction", "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "*1\r\n$4\r\nEXEC\r\n", 256 * mib, mib, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"},
		{"published", "*3\r\n$7\r\nPUBLISH\r\n$1\r\nk\r\n", "", 256 * mib, mib, ":0\r\n"},
	} {
		c := redistest.Connect(t, l.Addr)
		c.Timeout = ample
		c.Want("+PONG\r\n", "PING")
		forgetPeak(t, l)
		c.Send(set.before + fmt.Sprintf("$%d\r\n", set.size))
		piece := strings.Repeat("x", set.step)
		for left := set.size; left > 0; left -= len(piece) {
			piece = piece[:min(left, set.step)]
			c.Send(piece)
		}
		c.Send("\r\n" + set.after)
		for want := set.replies; want != ""; {
			got := c.Read()
			if !strings.HasPrefix(want, got) {
				t.Fatalf("%s: got %.100q, want %.100q", set.name, got, want)
			}
			want = want[len(got):]
		}
		if most := int64(512*mib) * 13 / 10; peakMemory(t, l) > most {
			t.Errorf("%s: a value of %d MiB took %d MiB, want at most %d", set.name, set.size/mib, peakMemory(t, l)/mib, most/mib)
		}
		c.Close()
	}
}

// TestLargeMGetIsHeldOnce: Leash does not copy the replies of several nodes into one. CLIENT LIST
// counts the bytes that wait for a client that does not read.
func TestLargeMGetIsHeldOnce(t *testing.T) {
	t.Parallel()
	redistest.NeedsCluster(t)
	const keys, size = 8, 32 * mib
	cluster, dir := redistest.StartCluster(t, redistest.ClusterOptions{}), t.TempDir()
	binary := leashtest.Binary(t)
	l, err := leashtest.Start(t.Context(), binary, dir, "--upstream", strings.Join(cluster.Addrs(), ","), "--max-client-output", "4GiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	c := redistest.Connect(t, l.Addr)
	c.Timeout = ample
	mget := []string{"MGET"}
	value := strings.Repeat("x", size)
	for i := range keys {
		mget = append(mget, fmt.Sprint("key", i))
		c.Want("+OK\r\n", "SET", mget[1+i], value)
	}
	forgetPeak(t, l)
	c.Send(redistest.Command(mget...))
	if n, err := io.CopyN(io.Discard, c.Conn(), keys*(size+13)+4); err != nil {
		t.Fatalf("got %d bytes of MGET: %v", n, err)
	}
	if most := int64(2 * keys * size); peakMemory(t, l) > most {
		t.Errorf("MGET of %d MiB took %d MiB, want at most %d", keys*size/mib, peakMemory(t, l)/mib, most/mib)
	}

	forgetPeak(t, l)
	counted, other := int64(0), redistest.Connect(t, l.Addr)
	silent := redistest.Connect(t, l.Addr) // Leash does not know the size of its replies yet
	silent.Send(strings.Repeat(redistest.Command(mget...), 3))
	for deadline := time.Now().Add(ample); counted < 2*keys*size; time.Sleep(10 * time.Millisecond) {
		counted = outputCounted(t, other)
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB wait for the client", counted/mib)
		}
	}
	// until all replies have come
	for before := int64(-1); before != counted; time.Sleep(200 * time.Millisecond) {
		before, counted = counted, outputCounted(t, other)
	}
	if most := counted * 13 / 10; peakMemory(t, l) > most {
		t.Errorf("counted %d MiB, and %d MiB are in use", counted/mib, peakMemory(t, l)/mib)
	}
}

var outputSize = regexp.MustCompile(` omem=(\d+) `)

// outputCounted is how many bytes CLIENT LIST counts that wait for clients.
func outputCounted(t *testing.T, c *redistest.TestClient) (sum int64) {
	t.Helper()
	for _, found := range outputSize.FindAllStringSubmatch(c.Do("CLIENT", "LIST"), -1) {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func forgetPeak(t *testing.T, l *leashtest.Leash) {
	t.Helper()
	if err := l.ForgetPeak(); err != nil {
		t.Fatal(err)
	}
}

func peakMemory(t *testing.T, l *leashtest.Leash) int64 {
	t.Helper()
	n, err := l.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
