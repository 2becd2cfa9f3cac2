package program

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
)

// logFile is the log of a Leash within a test. It is safe for concurrent use.
type logFile struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// begin runs a Leash within the test. end stops it and returns what run returned.
func begin(t *testing.T, log *logFile, args ...string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, nil, log, log) }()
	end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = end() })
	return end
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(ample); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %v: %s", ample, what)
		}
	}
}

// TestLeashWaitsForRedis: a Leash that starts before its Redis logs what it waits for and tells its
// clients. It serves them when Redis answers.
func TestLeashWaitsForRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	listen := redistest.FreeAddr(t)
	var log logFile
	end := begin(t, &log, "--listen", listen, "--upstream", s.Addr, "--drain-timeout", "0")
	eventually(t, "Leash logs what it waits for", func() bool {
		return strings.Contains(log.String(), "waiting for redis") && strings.Contains(log.String(), s.Addr)
	})
	c := redistest.Connect(t, listen)
	if got, want := c.Do("PING"), "-UPSTREAMDOWN Leash waits for Redis, the command was not executed\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.WantClosed()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	c = redistest.Connect(t, listen)
	c.Want("+PONG\r\n", "PING")
	if n := strings.Count(log.String(), "waiting for redis"); n > 3 {
		t.Errorf("logged %d times that it waits:\n%s", n, log.String())
	}
	if !strings.Contains(log.String(), "redis answers") {
		t.Errorf("did not log that Redis answers:\n%s", log.String())
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestStopWhileItWaits: a Leash that waits for its Redis stops at once, in an orderly way.
func TestStopWhileItWaits(t *testing.T) {
	t.Parallel()
	var log logFile
	end := begin(t, &log, "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1")
	eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "waiting for redis") })
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestWaitForUpstreamEnds: with --wait-for-upstream, Leash ends after that time.
func TestWaitForUpstreamEnds(t *testing.T) {
	t.Parallel()
	var log logFile
	err := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--wait-for-upstream", "1500ms"}, nil, &log, &log)
	if exitCode(err) != 1 || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// TestAMissingPasswordNamesTheFlag: settings that cannot work end Leash at once, and the error
// names the flag.
func TestAMissingPasswordNamesTheFlag(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Connect(t, s.Addr).Want("+OK\r\n", "CONFIG", "SET", "requirepass", "secret")
	for _, row := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"NOAUTH", "--upstream-password-file", "LEASH_UPSTREAM_PASSWORD", "--upstream-user"}},
		{[]string{"--upstream-password", "wrong"}, []string{"WRONGPASS", "--upstream-password-file"}},
		// beside a server that does not answer
		{[]string{"--upstream", "127.0.0.1:1"}, []string{"NOAUTH", "--upstream-password-file"}},
		{[]string{"--upstream-password", "secret", "--upstream-user", "nobody"}, []string{"WRONGPASS", "--upstream-user"}},
	} {
		var log logFile
		err := run(t.Context(), append([]string{"--listen", "127.0.0.1:0", "--upstream", s.Addr}, row.args...), nil, &log, &log)
		if exitCode(err) != 1 {
			t.Errorf("%q: exit code %d: %v", row.args, exitCode(err), err)
			continue
		}
		for _, part := range row.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, want %s in it", row.args, err, part)
			}
		}
	}
}

// TestLogSaysHowClientsAuthenticate: clients of a Redis with a password get NOAUTH, and the log
// says what to do.
func TestLogSaysHowClientsAuthenticate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Connect(t, s.Addr).Want("+OK\r\n", "CONFIG", "SET", "requirepass", "secret")
	for _, trust := range []bool{false, true} {
		listen := redistest.FreeAddr(t)
		args := []string{"--listen", listen, "--upstream", s.Addr, "--upstream-password", "secret", "--drain-timeout", "0"}
		reply := "-NOAUTH Authentication required.\r\n"
		if trust {
			args, reply = append(args, "--trust-clients"), "$-1\r\n"
		}
		var log logFile
		end := begin(t, &log, args...)
		eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
		redistest.Connect(t, listen).Want(reply, "GET", "k")
		if err := end(); err != nil {
			t.Error(err)
		}
		if said := strings.Contains(log.String(), "clients must send AUTH"); said == trust {
			t.Errorf("trust %v: logged\n%s", trust, log.String())
		}
	}
}

// TestUpstreamIsNotARedis: it may be a web server, or a Redis that needs TLS.
func TestUpstreamIsNotARedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	var log logFile
	addr := web.Listener.Addr().String()
	err := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--upstream", addr, "--wait-for-upstream", "0"}, nil, &log, &log)
	if exitCode(err) != 1 || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "no Redis, or expects TLS") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// TestClusterLog: the log counts replicas and says what a failover has changed. It reports once
// that a node is lost and once that it is back.
func TestClusterLog(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var log logFile
	begin(t, &log, "--listen", "127.0.0.1:0", "--upstream", strings.Join(cluster.Addrs(), ","), "--drain-timeout", "0")
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	if !strings.Contains(log.String(), "masters=3 replicas=3 cluster=true") {
		t.Errorf("the counts are wrong:\n%s", log.String())
	}
	dead := cluster.Masters()[0]
	dead.Kill()
	eventually(t, "the log has the failover", func() bool { return strings.Contains(log.String(), "slots from "+dead.Addr+" to ") })
	if err := dead.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is back, as a replica", func() bool { return strings.Contains(log.String(), "redis node is back") })
	for _, line := range []string{"redis node lost", "redis node is back", "slots from " + dead.Addr} {
		lines := 0
		for text := range strings.Lines(log.String()) {
			if strings.Contains(text, line) && strings.Contains(text, dead.Addr) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%q was logged %d times:\n%s", line, lines, log.String())
		}
	}
}

// TestYoungClusterLog: the log counts replicas that have not received a write, although CLUSTER
// SLOTS omits them.
func TestYoungClusterLog(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Args: []string{"--repl-ping-replica-period", "3600"}})
	replica, err := cluster.AddMaster()
	if err != nil {
		t.Fatal(err)
	}
	redistest.Connect(t, replica.Addr).Want("+OK\r\n", "CLUSTER", "REPLICATE", cluster.Nodes[0].ID)
	asked := redistest.Connect(t, cluster.Addrs()[0])
	eventually(t, "the cluster knows the replica", func() bool {
		for line := range strings.Lines(asked.Do("CLUSTER", "NODES")) {
			if strings.Contains(line, replica.ID+" "+replica.Addr) && strings.Contains(line, " slave ") {
				return true
			}
		}
		return false
	})
	var log logFile
	begin(t, &log, "--listen", "127.0.0.1:0", "--upstream", cluster.Addrs()[0], "--drain-timeout", "0")
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	if !strings.Contains(log.String(), "masters=3 replicas=1 cluster=true") {
		t.Errorf("the counts are wrong:\n%s\n%s", log.String(), asked.Do("CLUSTER", "NODES"))
	}
}

// TestNodeIsBack: the log says when a lost Redis is back.
func TestNodeIsBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logFile
	begin(t, &log, "--listen", "127.0.0.1:0", "--upstream", s.Addr, "--drain-timeout", "0")
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	s.Kill()
	eventually(t, "it is lost", func() bool { return strings.Contains(log.String(), "redis node lost") })
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is back", func() bool { return strings.Contains(log.String(), "redis node is back") })
}

// TestStopSaysWhoIsWaitedFor: during a stop, the log says how many holders there are and when they
// have gone.
func TestStopSaysWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	l, _ := startOne(t, time.Minute)
	h := newHolder(t, l, "lock", "")
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = l.Stop() }()
	said := func(text string) func() bool {
		return func() bool {
			log, err := os.ReadFile(l.Log)
			return err == nil && strings.Contains(string(log), text)
		}
	}
	eventually(t, "Leash logs that it waits for a holder", said("holders=1"))
	if reply, err := h.Do("LOCK.RELEASE", "lock"); err != nil || reply != ":1\r\n" {
		t.Errorf("got %q, %v", reply, err)
	}
	eventually(t, "Leash logs that all holders have gone", said("all holders have gone"))
	<-stopped
}

// TestStopWithASilentRedis: a stop takes the drain time-out and about 3 s at most, whatever clients
// wait for and whatever Redis does.
func TestStopWithASilentRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	listen := redistest.FreeAddr(t)
	var log logFile
	end := begin(t, &log, "--listen", listen, "--upstream", s.Addr, "--drain-timeout", "500ms")
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "leash is ready") })
	send := func(commands ...string) {
		c := redistest.Connect(t, listen)
		for _, command := range commands {
			c.Send(redistest.Command(strings.Fields(command)...))
		}
	}
	for _, commands := range [][]string{
		{"XREAD BLOCK 0 STREAMS s $"}, {"BLPOP q 0"}, {"WAIT 1 0"}, {"MULTI", "SET a b"}, {"WATCH a"}, {"SUBSCRIBE c"}, {"MONITOR"},
		{"HELLO 3", "CLIENT TRACKING ON", "GET a"}, {"LOCK.ACQUIRE held"}, {"LOCK.ACQUIRE held BLOCK 0"}, {"SEM.INIT sem 1", "SEM.ACQUIRE sem"},
	} {
		send(commands...)
	}
	redistest.Connect(t, listen).Want("+OK\r\n", "SET", "k", "v")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Resume() })
	for _, commands := range [][]string{
		{"GET a"}, {"XREAD BLOCK 0 STREAMS s2 $"}, {"LOCK.ACQUIRE late"}, {"LOCK.RELEASE held"}, {"SUBSCRIBE d"}, {"AUTH a b"}, {"SELECT 1", "GET a"}, {"KEYS *"},
	} {
		send(commands...)
	}
	began := time.Now()
	if err := end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
