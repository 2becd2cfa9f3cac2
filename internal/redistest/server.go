package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	logName      = "redis.log"
	launchTries  = 5
	startTimeout = time.Minute
)

// Options describe one server. The zero value is a plain Redis with its defaults and no
// persistence.
type Options struct {
	// Args are further arguments of redis-server, as on its command line ("--maxmemory", "1mb");
	// they come last and so override what this package sets.
	Args []string
	// Password, if not empty, is the default user's (requirepass, and masterauth for replicas). Set
	// it here and not in Args, because this package itself has to authenticate.
	Password string
	// Clock gives the server its own wall clock (Server.Clock). That needs Linux and a C compiler,
	// see ClocksWork.
	Clock bool
	// TLS, if not nil, makes the server speak TLS and nothing else, also to other servers.
	TLS *TLS
}

// Server is one redis-server. Its data is lost when it ends.
type Server struct {
	Addr  string // 127.0.0.1:port; restarts keep it
	Clock *Clock // nil without Options.Clock

	port     *port
	dir      string
	opt      Options
	sentinel bool // run by its configuration file

	// mu guards the fields below.
	mu     sync.Mutex
	proc   *process // the latest run
	client *redis.Client
	closed bool
}

// Launch starts a server and returns when it answers. The caller closes it.
func Launch(opt Options) (*Server, error) {
	var s *Server
	err := retryPorts(func() (err error) {
		s, err = launchOnce(opt)
		return err
	})
	return s, err
}

// errPortTaken says that another program took the port between our check and Redis's bind.
var errPortTaken = errors.New("port was taken")

// retryPorts calls try again while it fails because a port was taken.
func retryPorts(try func() error) error {
	var err error
	for range launchTries {
		if err = try(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// launchOnce starts a server on a port of its choice.
func launchOnce(opt Options) (*Server, error) {
	p, err := claimPort()
	if err != nil {
		return nil, err
	}
	return launchAt(p, opt)
}

// launchAt starts a server on port p, which it takes over, also if it fails.
func launchAt(p *port, opt Options) (*Server, error) {
	s := &Server{Addr: p.addr(), port: p, opt: opt}
	var err error
	if s.dir, err = os.MkdirTemp("", "leash-redis-"); err != nil {
		p.release()
		return nil, err
	}
	if opt.Clock {
		s.Clock, err = newClock(s.dir)
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start runs redis-server and waits until it answers.
func (s *Server) start() error {
	proc, err := startProcess(s.dir, s.args(), s.Clock.env())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.proc = proc
	s.mu.Unlock()
	err = poll(startTimeout, func() error { return s.ready(proc) })
	if err == nil {
		return nil
	}
	log := s.LogTail(20)
	if strings.Contains(log, "Address already in use") {
		err = errors.Join(errPortTaken, err)
	}
	return fmt.Errorf("redistest: redis-server at %s: %w; its log ends:\n%s", s.Addr, err, log)
}

func (s *Server) args() []string {
	if s.sentinel {
		return []string{sentinelConfig, "--sentinel"}
	}
	args := append(s.opt.TLS.args(s.port.number),
		"--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		// A replica gets its copy at once. By default the master waits 5 s for more replicas.
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	)
	if s.opt.Password != "" {
		args = append(args, "--requirepass", s.opt.Password, "--masterauth", s.opt.Password)
	}
	return append(args, s.opt.Args...)
}

// ready returns nil once this process, and no other one, answers at the address.
func (s *Server) ready(proc *process) error {
	if proc.exited() {
		return finalError{errors.New("it ended at once")}
	}
	c, err := s.Dial() // go-redis would log each attempt
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = queryTimeout
	if s.opt.Password != "" {
		if _, err := c.Do("AUTH", s.opt.Password); err != nil {
			return err
		}
	}
	info, err := c.Do("INFO", "server")
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(info, "-"):
		return errors.New(strings.TrimSpace(info)) // for example LOADING
	case !strings.Contains(info, "process_id:"+strconv.Itoa(proc.pid())+"\r\n"):
		return finalError{errPortTaken}
	}
	return nil
}

// Client returns the go-redis client of this server, the same at each call. The server closes it.
// It uses RESP2 and never retries.
func (s *Server) Client() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		s.client = redis.NewClient(&redis.Options{
			Addr: s.Addr, Password: s.opt.Password, Protocol: 2, DisableIdentity: true,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
			ContextTimeoutEnabled: true, TLSConfig: s.opt.TLS.config(),
		})
	}
	return s.client
}

// Dial opens a plain RESP connection to the server, not authenticated.
func (s *Server) Dial() (*Client, error) {
	if s.opt.TLS == nil {
		return Dial(s.Addr)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: replyTimeout}, "tcp", s.Addr, s.opt.TLS.Config)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

// Pid is the process id of the server's latest run.
func (s *Server) Pid() int { return s.process().pid() }

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Pause stops the server with SIGSTOP, and returns when it has stopped. The server then runs no
// commands. The kernel still accepts connections and bytes for it.
func (s *Server) Pause() error { return s.process().pause() }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.process().resume() }

// Running reports whether the server's process runs and is not paused.
func (s *Server) Running() bool { return s.process().responsive() }

// Kill ends the server with SIGKILL, as a crash does, and returns when it is gone. The port stays
// reserved for Restart.
func (s *Server) Kill() error { return s.process().kill() }

// Restart starts the server again at its address and returns when it answers. If it is running,
// Restart kills it first. The server comes back empty. A cluster's node keeps its id and its view
// of the cluster.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	return s.start()
}

// LogTail returns the last lines of what the server has logged, at most n.
func (s *Server) LogTail(n int) string {
	b, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Close ends the server and removes its directory. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	proc, client, closed := s.proc, s.client, s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	if client != nil {
		_ = client.Close() // it fails with TLS if the server has ended the connection already
	}
	if proc != nil {
		if err := proc.kill(); err != nil && !errors.Is(err, ErrNotRunning) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.RemoveAll(s.dir))
	s.port.release()
	return errors.Join(errs...)
}
