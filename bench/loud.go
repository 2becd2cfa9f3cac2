package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

const (
	loudCommand = "loud-user" // first argument of the process of a loud user
	loudUser    = "loud"      // its name and password
	loudBatch   = 20          // commands that are sent at once
)

// loudCounts are what a loud user has sent, and the replies to it.
type loudCounts struct{ sent, ran, refused int64 }

// A loudProcess sends commands in a process of its own. A nil one does not.
type loudProcess struct{ *testbed.Program }

// startLoud starts the process. It sends rate commands a second in all, over connections.
func startLoud(dir, addr string, connections, rate int) (*loudProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := testbed.StartProgram(dir, loudCommand, "nice", "-n", "19", self, loudCommand, addr,
		strconv.Itoa(connections), strconv.Itoa(rate))
	return &loudProcess{p}, err
}

// counts asks the process.
func (p *loudProcess) counts(ctx context.Context) (c loudCounts, err error) {
	if p == nil {
		return c, nil
	}
	if _, err := fmt.Fprintln(p.In); err != nil {
		return c, fmt.Errorf("%w; its output ends:\n%s", err, p.LogTail())
	}
	line, err := p.Next(ctx)
	if err != nil {
		return c, err
	}
	_, err = fmt.Sscan(line, &c.sent, &c.ran, &c.refused)
	return c, err
}

// loud is the loud user in its process.
type loud struct {
	addr               string
	every              time.Duration // between two batches of a connection
	sent, ran, refused atomic.Int64
}

// runLoud is the main function of that process. It answers each line of in with its counts, and
// ends when in does.
func runLoud(args []string, in io.Reader, out io.Writer) error {
	connections, err := strconv.Atoi(args[1])
	rate, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	lowerSession()
	l := &loud{addr: args[0], every: time.Duration(connections*loudBatch) * time.Second / time.Duration(rate)}
	failed := make(chan error, connections)
	for i := range connections {
		go func() { failed <- l.send(time.Now().Add(l.every * time.Duration(i) / time.Duration(connections))) }()
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		select {
		case err := <-failed:
			return err
		default:
		}
		fmt.Fprintln(out, l.sent.Load(), l.ran.Load(), l.refused.Load())
	}
	return nil
}

// lowerSession makes the process a session of its own with a low priority. Where the kernel groups
// processes by session, a nice value says nothing beside those of other sessions.
func lowerSession() {
	_, _ = syscall.Setsid()
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0)
}

// send is one connection. It waits for no reply, but for a socket that is full.
func (l *loud) send(begin time.Time) error {
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		return err
	}
	replies := bufio.NewReader(c)
	fmt.Fprint(c, redistest.Command("AUTH", loudUser, loudUser))
	if reply, err := replies.ReadString('\n'); err != nil || reply != "+OK\r\n" {
		return unexpected("AUTH", reply, err)
	}
	failed := make(chan error, 1)
	go func() { failed <- l.count(replies) }()
	batch := strings.Repeat(redistest.Command("GET", "bench:absent"), loudBatch)
	for p := load.NewPacer(begin, l.every, time.Hour); p.Next(context.Background()); {
		if _, err := io.WriteString(c, batch); err != nil {
			return err
		}
		l.sent.Add(loudBatch)
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	return nil
}

// count counts replies.
func (l *loud) count(replies *bufio.Reader) error {
	for {
		switch reply, err := replies.ReadString('\n'); {
		case reply == "$-1\r\n":
			l.ran.Add(1)
		case strings.HasPrefix(reply, "-LIMIT "):
			l.refused.Add(1)
		default:
			return unexpected("GET", reply, err)
		}
	}
}
