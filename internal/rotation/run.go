package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// run is a whole run. It prints its figures to out. The error says what went wrong first.
func run(opt options, out io.Writer) (err error) {
	redis, err := redistest.Launch(redistest.Options{})
	if err != nil {
		return err
	}
	defer redis.Close()
	g, err := openGate(redis.Addr)
	if err != nil {
		return err
	}
	defer g.close()
	admin, err := redis.Dial()
	if err != nil {
		return err
	}
	defer admin.Close()
	s := &tokens{redis: admin, gate: g, lasts: opt.lasts, file: filepath.Join(opt.dir, "token")}
	if err := errors.Join(s.setUser("on", "~*", "&*", "+@all"), s.issue()); err != nil {
		return err
	}
	binary, err := leashtest.Build(context.Background(), opt.dir, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opt.length)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	failed := make(chan error, workers+3)
	start := func(f func(context.Context) error) {
		running.Go(func() { failed <- f(ctx); cancel() })
	}
	start(s.rotate)
	l, err := leashtest.Start(ctx, binary, opt.dir, "--upstream", g.ln.Addr().String(), "--upstream-user", "leash",
		"--upstream-password-command", "cat "+s.file, "--upstream-password-ttl", opt.ttl,
		"--trust-clients", "--watchdog-timeout", "10s", "--admin", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Kill()
	h, err := hold(l.Addr, opt.holds)
	if err != nil {
		return err
	}
	began, t := time.Now(), &traffic{addr: l.Addr}
	for i := range workers {
		start(func(ctx context.Context) error { return t.work(ctx, i) })
	}
	start(t.messages)
	<-ctx.Done()
	running.Wait()
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	lost := h.lost()
	fmt.Fprintf(out, "%v: %d tokens, %d logins, %d idle connections closed because their token had ended\n",
		time.Since(began).Round(time.Second), s.number, g.logins.Load(), g.closed.Load())
	fmt.Fprintf(out, "%d holds, %d lost; %d commands and %d messages, each checked\n", opt.holds, lost, t.commands.Load(), t.received.Load())
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d holds were lost", lost))
	}
	line, failure := l.Said("connection to redis lost", "refuses the password", "cannot read the password", "lock lost")
	if line != "" {
		err = errors.Join(err, errors.New("leash has logged: "+line))
	}
	return errors.Join(err, failure, noneLost(l), l.AwaitInfo(10*time.Second, "upstream_logins_refused:0", "holds:0"))
}

var adminAddr = regexp.MustCompile(`msg="admin port is open" address=(\S+)`)

// noneLost checks that no connection of Leash for clients or scripts has ended.
func noneLost(l *leashtest.Leash) error {
	line, err := l.Said("admin port is open")
	m := adminAddr.FindStringSubmatch(line)
	if m == nil {
		return errors.Join(err, errors.New("the log does not have the admin port"))
	}
	answer, err := http.Get("http://" + m[1] + "/metrics")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "\nleash_upstream_connections_lost_total 0\n") {
		return errors.New("connections to Redis have ended")
	}
	return nil
}

// holds are locks, each with its token, on some connections.
type holds struct {
	clients []*redistest.Client
	tokens  [][]string // of each client
}

// holdsPerClient is how many locks one connection has.
const holdsPerClient = 100

// hold takes n locks.
func hold(addr string, n int) (*holds, error) {
	h := &holds{}
	for first := 0; first < n; first += holdsPerClient {
		c, err := redistest.Dial(addr)
		if err != nil {
			return nil, err
		}
		var mine []string
		for i := first; i < min(n, first+holdsPerClient); i++ {
			got, err := c.Do("LOCK.ACQUIRE", fmt.Sprint("hold:", i))
			if err != nil || got[0] != ':' {
				return nil, fmt.Errorf("LOCK.ACQUIRE was answered %q %w", got, err)
			}
			mine = append(mine, strings.Trim(got, ":\r\n"))
		}
		h.clients, h.tokens = append(h.clients, c), append(h.tokens, mine)
	}
	return h, nil
}

// lost checks and releases each hold. It returns how many have been lost.
func (h *holds) lost() (n int) {
	for i, c := range h.clients {
		for j, token := range h.tokens[i] {
			key := fmt.Sprint("hold:", i*holdsPerClient+j)
			held, err := c.Do("LOCK.CHECK", key, "TOKEN", token)
			released, failure := c.Do("LOCK.RELEASE", key)
			if err != nil || failure != nil || held != ":1\r\n" || released != ":1\r\n" {
				n++
			}
		}
		c.Close()
	}
	return n
}
