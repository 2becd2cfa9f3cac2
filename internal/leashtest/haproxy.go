package leashtest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"leash/internal/redistest"
)

// HAProxy is a load balancer in front of some Leashes, set up as docs/operations.md says.
type HAProxy struct {
	Addr string // the address for clients

	log    string
	socket string // its statistics socket
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
}

// Backend is a Leash behind a load balancer: its address for clients, and that of --admin.
type Backend struct{ Addr, Admin string }

// StartHAProxy runs haproxy on a free port of 127.0.0.1 in front of these Leashes. It returns when
// haproxy sees all of them up. The settings are the block of the given page that is
// marked haproxy, with other addresses. The files of haproxy are in dir.
func StartHAProxy(ctx context.Context, page, dir string, leashes ...Backend) (*HAProxy, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var errs []error
	for range startTries {
		h, err := startHAProxy(ctx, string(text), dir, leashes)
		if err == nil {
			return h, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func startHAProxy(ctx context.Context, page, dir string, leashes []Backend) (*HAProxy, error) {
	addr, err := redistest.ReserveAddr()
	if err != nil {
		return nil, err
	}
	h := &HAProxy{Addr: addr, log: filepath.Join(dir, "haproxy.log"), socket: filepath.Join(dir, "haproxy.sock"), done: make(chan struct{})}
	settings, err := h.settings(page, leashes)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	h.cmd = exec.Command(haproxy(), "-db", "-f", file)
	h.cmd.Stdout, h.cmd.Stderr = log, log
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(h.done)
		_ = h.cmd.Wait()
	}()
	if err := h.AwaitUp(ctx, len(leashes)); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// haproxy is the path of haproxy. If it is not on the PATH, it is where its package installs it, in
// sbin.
func haproxy() string {
	if path, err := exec.LookPath("haproxy"); err == nil {
		return path
	}
	return "/usr/sbin/haproxy"
}

var (
	settingsPattern = regexp.MustCompile("(?ms)^```haproxy\n(.*?)^```$")
	bindPattern     = regexp.MustCompile(`(?m)^( *bind )\S+`)
	serverPattern   = regexp.MustCompile(`(?m)^ *server \S+ \S+\n`)
)

// settings returns the page's settings with addresses of this machine.
func (h *HAProxy) settings(page string, leashes []Backend) (string, error) {
	block := settingsPattern.FindStringSubmatch(page)
	if block == nil {
		return "", errors.New("the page has no block marked haproxy")
	}
	text := block[1]
	if !bindPattern.MatchString(text) || !serverPattern.MatchString(text) {
		return "", errors.New("the settings of HAProxy name no bind address or no server")
	}
	text = bindPattern.ReplaceAllString(text, "${1}"+h.Addr)
	text = strings.TrimRight(serverPattern.ReplaceAllString(text, ""), "\n") + "\n"
	for i, l := range leashes {
		_, port, err := net.SplitHostPort(l.Admin)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("    server leash-%d %s port %s\n", i+1, l.Addr, port)
	}
	return "global\n    stats socket " + h.socket + "\n\n" + text, nil
}

// AwaitUp waits until HAProxy has n Leashes up.
func (h *HAProxy) AwaitUp(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		up, err := h.up()
		if err == nil && up == n {
			return nil
		}
		select {
		case <-h.done:
			return fmt.Errorf("haproxy ended: %s", h.LogTail())
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("haproxy has %d up, not %d: %s", up, n, h.LogTail()))
		case <-ticker.C:
		}
	}
}

// up asks HAProxy how many Leashes it considers up. It counts the rows of servers with the status
// UP.
func (h *HAProxy) up() (n int, err error) {
	conn, err := net.Dial("unix", h.socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(readyTimeout))
	if _, err := io.WriteString(conn, "show stat -1 4 -1\n"); err != nil {
		return 0, err
	}
	table := csv.NewReader(conn)
	table.FieldsPerRecord = -1
	rows, err := table.ReadAll()
	for _, row := range rows {
		const status = 17
		if len(row) > status && row[status] == "UP" {
			n++
		}
	}
	return n, err
}

// Close ends the process and returns when it is gone.
func (h *HAProxy) Close() {
	_ = h.cmd.Process.Kill() // it may have ended already
	<-h.done
}

// LogTail is the end of its output, for errors.
func (h *HAProxy) LogTail() string {
	b, err := os.ReadFile(h.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}
