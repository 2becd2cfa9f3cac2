package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leash/internal/certtest"
	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestExitStatusOfMistakes: each mistake has an exit status and a sentence.
func TestExitStatusOfMistakes(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	send(t, l.Addr, "SET", "text", "x")
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"lock", exitUsage, "give the program after --"},
		{"lock k", exitUsage, "give the program after --"},
		{"lock k --", exitUsage, "give the program after --"},
		{"lock k j -- true", exitUsage, "exactly one KEY"},
		{"lock -- true", exitUsage, "exactly one KEY"},
		{"lock k --nonsense -- true", exitUsage, "--nonsense"},
		{"lock k --read --write -- true", exitUsage, "read"},
		{"lock k --wait -1s -- true", exitUsage, "negative"},
		{"lock k --wait soon -- true", exitUsage, "--wait"},
		{"lock k -- nosuchprogram", exitNotFound, "nosuchprogram"},
		{"lock k -- /etc/passwd", exitNotRun, "permission denied"},
		{"lock text -- true", exitFailed, "WRONGTYPE"},
		{"locks k", exitUsage, "unknown command"},
		{"break", exitUsage, "accepts 1 arg"},
		{"break text", exitFailed, "WRONGTYPE"},
		{"health --server 127.0.0.1:1", exitUnavailable, "no Leash answers"},
		{"lock k --wait 10ms --server 127.0.0.1:1 -- true", exitUnavailable, "no Leash answers"},
		{"health --server redis://:secret@%zz", exitUsage, "--server"},
		{"health --server nowhere", exitUsage, "--server"},
		{"health --password-file /no/such/file", exitUsage, "--password-file"},
		{"health --server rediss://a:1 --tls-ca /no/ca", exitUsage, "leash: --tls-ca: open /no/ca: no such file"},
		{"health --server rediss://a:1 --tls-ca /etc/passwd", exitUsage, "leash: --tls-ca /etc/passwd has no certificate"},
		{"health --server rediss://a:1 --tls-cert /no/crt --tls-key /etc/passwd", exitUsage, "leash: --tls-cert: open /no/crt: no"},
		{"health --server rediss://a:1 --tls-cert /etc/passwd --tls-key /no/key", exitUsage, "leash: --tls-key: open /no/key: no"},
		{"health --server rediss://a:1 --tls-cert /etc/passwd", exitUsage, "--tls-cert and --tls-key belong together"},
		{"lock k --tls-ca /etc/passwd -- true", exitUsage, "give one with --server"},
	} {
		r := start(t, l.Addr, strings.Fields(c.args)...)
		if got := r.status(); got != c.status || !strings.Contains(r.errors(), c.says) || strings.Contains(r.errors(), "secret") {
			t.Errorf("%s: got status %d, %q", c.args, got, r.errors())
		}
	}
	if reply := send(t, l.Addr, "LOCK.INFO", "k"); reply != "$-1" {
		t.Errorf("a lock is left: %q", reply)
	}
}

// TestOperatorsSeeTheLocks: leash locks shows each lock with its holder, leash status the fields of
// INFO leash, and leash break ends a lock.
func TestOperatorsSeeTheLocks(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	start(t, l.Addr, "lock", "order:1", "--", "sh", "-c", "echo held; sleep 100").says()
	start(t, l.Addr, "lock", "stock", "--read", "--", "sh", "-c", "echo held; sleep 100").says()
	r := start(t, l.Addr, "locks", "--json", "--match", "order:*")
	var info lockInfo
	if err := json.Unmarshal([]byte(r.says()), &info); err != nil {
		t.Fatal(err)
	}
	if info.Key != "order:1" || info.Mode != "plain" || info.Token == 0 || !strings.Contains(info.Client, "leash-lock:") {
		t.Errorf("got %+v", info)
	}
	r = start(t, l.Addr, "locks")
	if got := r.status(); got != 0 || strings.Count(r.out(), "\n") != 3 || !strings.Contains(r.out(), `"stock"`) {
		t.Errorf("got %d, %q, %q", got, r.out(), r.errors())
	}
	r = start(t, l.Addr, "status")
	if got := r.status(); got != 0 || !strings.Contains(r.out(), "holds 2\n") {
		t.Errorf("got %d, %q", got, r.out())
	}
	start(t, l.Addr, "break", "order:1").want(0, "the lock is broken, its holder was told\n")
	start(t, l.Addr, "break", "order:1").want(0, "the lock was free\n")
}

// TestLocksWithoutAMaster: the locks of the other masters are shown, and the error names the master
// that is down.
func TestLocksWithoutAMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", "no"}})
	l, err := leashtest.Start(t.Context(), leashtest.Binary(t), t.TempDir(), "--upstream", strings.Join(cluster.Addrs(), ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	for _, key := range []string{"a", "b", "d"} { // a and d are of the third master, b is of the first
		start(t, l.Addr, "lock", key, "--", "sh", "-c", "echo held; sleep 100").says()
	}
	if err := cluster.Nodes[2].Kill(); err != nil {
		t.Fatal(err)
	}
	r := start(t, l.Addr, "locks", "--json")
	want := "leash: the locks of " + cluster.Nodes[2].Addr + " are missing: UPSTREAM"
	if got := r.status(); got != exitFailed || !strings.HasPrefix(r.out(), `{"key":"b",`) || strings.Count(r.out(), "\n") != 1 ||
		!strings.HasPrefix(r.errors(), want) {
		t.Errorf("got %d, %q, %q", got, r.out(), r.errors())
	}
}

// TestPasswords: each command says a refusal in the words of the server, which is no sign that no
// Leash answers. A Leash that wants a password that is not given is healthy.
func TestPasswords(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	send(t, redis.Addr, "ACL", "SETUSER", "leash", "on", ">open-sesame", "~*", "&*", "+@all")
	send(t, redis.Addr, "CONFIG", "SET", "requirepass", "open-sesame")
	l := startLeash(t, redis, "--upstream-user", "leash", "--upstream-password-file", file)
	start(t, l.Addr, "health").want(0, "ok\n")
	start(t, "127.0.0.1:1,"+l.Addr, "health").want(0, "ok\n")
	start(t, l.Addr, "lock", "k", "--password-file", file, "--", "echo", "in").want(0, "in\n")
	start(t, "redis://:open-sesame@"+l.Addr, "lock", "k", "--", "echo", "in").want(0, "in\n")
	wrong := "redis://:close-sesame@" + l.Addr
	for _, server := range []string{l.Addr, "127.0.0.1:1," + l.Addr + ",127.0.0.1:1", redis.Addr} {
		for _, args := range []string{"lock k -- true", "lock k --wait 0 -- true", "elect k -- true", "locks", "break k", "status"} {
			start(t, server, strings.Fields(args)...).wantRefusal(args, "leash: NOAUTH Authentication required.\n")
		}
	}
	for _, args := range []string{"lock k -- true", "locks", "health"} {
		start(t, wrong, strings.Fields(args)...).wantRefusal(args, "leash: WRONGPASS invalid username-password pair or user is disabled.\n")
	}
}

// TestTLS: a Leash may want a certificate, and have one from an authority that the system does not
// know.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, nil)
	addr := redistest.FreeAddr(t)
	startLeash(t, redistest.Start(t), "--tls-listen", addr, "--tls-cert", pair.Cert, "--tls-key", pair.Key, "--tls-client-ca", ca.CA)
	trust, show := []string{"--tls-ca", ca.CA}, []string{"--tls-cert", pair.Cert, "--tls-key", pair.Key}
	both := append(trust, show...)
	for name, args := range map[string][]string{"unknown authority": show, "certificate required": trust} {
		r := start(t, "rediss://"+addr, append([]string{"health"}, args...)...)
		if got := r.status(); got != exitUnavailable || !strings.Contains(r.errors(), name) {
			t.Errorf("got %d, %q", got, r.errors())
		}
	}
	start(t, "rediss://"+addr, append([]string{"health"}, both...)...).want(0, "ok\n")
	start(t, "127.0.0.1:1,rediss://"+addr, append(append([]string{"lock", "k"}, both...), "--", "echo", "in")...).want(0, "in\n")
}

// wantRefusal checks that a command ends with status 1 and these words.
func (r *run) wantRefusal(name, words string) {
	r.t.Helper()
	if got := r.status(); got != exitFailed || r.errors() != words {
		r.t.Errorf("%s: got %d, %q", name, got, r.errors())
	}
}

// TestElectStepsDown: the loss of the lock ends the program, and the next term begins. The end of
// the program itself is the end of the command.
func TestElectStepsDown(t *testing.T) {
	t.Parallel()
	l := startLeash(t, redistest.Start(t))
	script := `if test -e "$0"; then exit 5; fi; : > "$0"; echo leads; sleep 100`
	r := start(t, l.Addr, "elect", "k", "--", "sh", "-c", script, filepath.Join(t.TempDir(), "term"))
	r.says()
	start(t, l.Addr, "break", "k").want(0, "the lock is broken, its holder was told\n")
	r.want(5, "leads\n")
	if !strings.Contains(r.errors(), "stepped down") {
		t.Errorf("got %q", r.errors())
	}
}

// TestCompletion: the shells complete the commands.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := start(t, "", "completion", shell)
		if got := r.status(); got != 0 || !strings.Contains(r.out(), "leash") {
			t.Errorf("%s: got %d, %q", shell, got, r.errors())
		}
	}
	r := start(t, "", "__complete", "lo")
	if got := r.status(); got != 0 || !strings.HasPrefix(r.out(), "lock\t") {
		t.Errorf("got %d, %q", got, r.out())
	}
}
