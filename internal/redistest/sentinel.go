package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinelConfig   = "sentinel.conf"
	sentinelTimeout  = time.Minute
	promotionTimeout = time.Minute

	// defaultDownAfter is several seconds, because a sentinel connects to a new master only once a
	// second, and sends a PING once a second. It counts those seconds as silence of the master, and
	// also the time for which the machine stalls.
	defaultDownAfter = 4 * time.Second
	// NoFailover is a DownAfter for tests that do not change the master.
	NoFailover = time.Hour
)

// SentinelOptions describe a master, its replicas and their sentinels. The zero value
// is two replicas and three sentinels, without passwords.
type SentinelOptions struct {
	Replicas  int // if zero, 2
	Sentinels int // if zero, 3
	// DownAfter is down-after-milliseconds; if zero, 4 s. After that time, the sentinels consider a
	// silent master down.
	DownAfter time.Duration
	// Args and Password are those of Options, for master and replicas.
	Args     []string
	Password string
	// TLS is that of Options, also for the sentinels. They take clients without a certificate.
	TLS *TLS
	// SentinelPassword, if not empty, is the password that clients of the sentinels need.
	SentinelPassword string
}

// SentinelGroup is a master, its replicas and their sentinels, all processes on this machine.
type SentinelGroup struct {
	Name      string    // of the master, in the sentinels' configuration
	Servers   []*Server // the first is the master as built; the order stays when roles change
	Sentinels []*Server

	opt SentinelOptions
}

// LaunchSentinel starts a group. It waits until every sentinel knows all other sentinels and every
// replica, and every replica is linked to the master. That takes 2 to 3 s. The caller closes the
// group.
func LaunchSentinel(opt SentinelOptions) (*SentinelGroup, error) {
	if opt.Replicas == 0 {
		opt.Replicas = 2
	}
	if opt.Sentinels == 0 {
		opt.Sentinels = 3
	}
	if opt.DownAfter == 0 {
		opt.DownAfter = defaultDownAfter
	}
	g := &SentinelGroup{Name: "leash", opt: opt}
	err := g.launch()
	if err == nil {
		err = poll(sentinelTimeout, g.stable)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: sentinel: %w", err), g.Close())
	}
	return g, nil
}

func (g *SentinelGroup) launch() error {
	common := append([]string{"--repl-ping-replica-period", "1"}, g.opt.Args...)
	for i := range 1 + g.opt.Replicas {
		args := common
		if i > 0 {
			args = append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(g.Servers[0].port.number)}, common...)
		}
		s, err := Launch(Options{Args: args, Password: g.opt.Password, TLS: g.opt.TLS})
		if err != nil {
			return err
		}
		g.Servers = append(g.Servers, s)
	}
	for range g.opt.Sentinels {
		err := retryPorts(g.launchSentinel)
		if err != nil {
			return err
		}
	}
	return nil
}

// launchSentinel starts one more sentinel. The sentinel keeps its state in its configuration file,
// so a restart does not lose it.
func (g *SentinelGroup) launchSentinel() error {
	p, err := claimPort()
	if err != nil {
		return err
	}
	s := &Server{Addr: p.addr(), port: p, opt: Options{Password: g.opt.SentinelPassword, TLS: g.opt.TLS}, sentinel: true}
	if s.dir, err = os.MkdirTemp("", "leash-sentinel-"); err != nil {
		p.release()
		return err
	}
	err = os.WriteFile(filepath.Join(s.dir, sentinelConfig), []byte(g.config(p.number)), 0o600)
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	g.Sentinels = append(g.Sentinels, s)
	return nil
}

func (g *SentinelGroup) config(port int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	listen := g.opt.TLS.args(port)
	for i := 0; i < len(listen); i += 2 {
		line("%s %s", strings.TrimPrefix(listen[i], "--"), listen[i+1])
	}
	if g.opt.TLS != nil {
		line("tls-auth-clients no")
	}
	line("bind 127.0.0.1")
	line("sentinel monitor %s 127.0.0.1 %d %d", g.Name, g.Servers[0].port.number, g.opt.Sentinels/2+1)
	line("sentinel down-after-milliseconds %s %d", g.Name, g.opt.DownAfter.Milliseconds())
	line("sentinel failover-timeout %s 4000", g.Name)
	line("sentinel parallel-syncs %s %d", g.Name, g.opt.Replicas)
	if g.opt.Password != "" {
		line("sentinel auth-pass %s %s", g.Name, g.opt.Password)
	}
	if g.opt.SentinelPassword != "" {
		line("requirepass %s", g.opt.SentinelPassword)
		line("sentinel sentinel-pass %s", g.opt.SentinelPassword)
	}
	return b.String()
}

// Close ends all servers and sentinels.
func (g *SentinelGroup) Close() error {
	var errs []error
	for _, s := range append(g.Sentinels, g.Servers...) {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Addrs returns the sentinels' addresses.
func (g *SentinelGroup) Addrs() []string {
	addrs := make([]string, len(g.Sentinels))
	for i, s := range g.Sentinels {
		addrs[i] = s.Addr
	}
	return addrs
}

// Master returns the server that all running sentinels consider the master, or nil while they do
// not agree.
func (g *SentinelGroup) Master() *Server {
	var addr string
	for _, s := range g.Sentinels {
		if !s.Running() {
			continue
		}
		at, err := g.masterAt(s)
		if err != nil || addr != "" && at != addr {
			return nil
		}
		addr = at
	}
	for _, s := range g.Servers {
		if s.Addr == addr {
			return s
		}
	}
	return nil
}

func (g *SentinelGroup) masterAt(sentinel *Server) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	at, err := sentinel.Client().Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name).StringSlice()
	if err != nil || len(at) != 2 {
		return "", errors.Join(errors.New("no master known"), err)
	}
	return at[0] + ":" + at[1], nil
}

// Failover makes a replica the master with SENTINEL FAILOVER. It returns when every sentinel agrees
// on the new master and the old one has become a replica.
func (g *SentinelGroup) Failover() (*Server, error) {
	old := g.Master()
	if old == nil {
		return nil, errors.New("redistest: the sentinels agree on no master")
	}
	ctx, cancel := context.WithTimeout(context.Background(), promotionTimeout)
	defer cancel()
	// an earlier failover may not have ended yet
	err := poll(promotionTimeout, func() error {
		return g.Sentinels[0].Client().Do(ctx, "SENTINEL", "FAILOVER", g.Name).Err()
	})
	if err != nil {
		return nil, fmt.Errorf("redistest: sentinel failover: %w", err)
	}
	return g.AwaitMaster(old, promotionTimeout)
}

// AwaitMaster waits until every running sentinel, and the server itself, say that a server other
// than old is the master, and every other running server is its replica. The sentinels must also
// be connected to the master and see no reason for another failover.
func (g *SentinelGroup) AwaitMaster(old *Server, timeout time.Duration) (*Server, error) {
	var master *Server
	err := poll(timeout, func() error {
		if master = g.Master(); master == nil || master == old {
			return errors.New("redistest: the sentinels have no new master")
		}
		for _, s := range g.Sentinels {
			if !s.Running() {
				continue
			}
			if m, err := g.view(s); err != nil || m["flags"] != "master" {
				return errors.Join(fmt.Errorf("redistest: %s says the master is %q", s.Addr, m["flags"]), err)
			}
		}
		return g.rolesSettled(master)
	})
	return master, err
}

// stable returns nil when every server has its role and every sentinel knows all others.
func (g *SentinelGroup) stable() error {
	for _, s := range g.Sentinels {
		if err := g.complete(s); err != nil {
			return fmt.Errorf("%s: %w", s.Addr, err)
		}
	}
	return g.rolesSettled(g.Servers[0])
}

// view returns what a sentinel says of the master.
func (g *SentinelGroup) view(sentinel *Server) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", g.Name)
	err := sentinel.Client().Process(ctx, cmd)
	return cmd.Val(), err
}

func (g *SentinelGroup) complete(sentinel *Server) error {
	m, err := g.view(sentinel)
	if err != nil {
		return err
	}
	if m["flags"] != "master" || m["num-slaves"] != strconv.Itoa(g.opt.Replicas) || m["num-other-sentinels"] != strconv.Itoa(g.opt.Sentinels-1) {
		return fmt.Errorf("master is %s with %s replicas and %s other sentinels", m["flags"], m["num-slaves"], m["num-other-sentinels"])
	}
	return nil
}

// rolesSettled returns nil when master is a master and every other running server is its replica,
// with a link that is up.
func (g *SentinelGroup) rolesSettled(master *Server) error {
	for _, s := range g.Servers {
		if !s.Running() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
		info, err := s.Client().Info(ctx, "replication").Result()
		cancel()
		switch {
		case err != nil:
			return err
		case s == master && !strings.Contains(info, "role:master\r\n"):
			return fmt.Errorf("%s is no master yet", s.Addr)
		case s != master && !(strings.Contains(info, "master_port:"+strconv.Itoa(master.port.number)+"\r\n") && strings.Contains(info, "master_link_status:up")):
			return fmt.Errorf("%s is no replica of %s yet", s.Addr, master.Addr)
		}
	}
	return nil
}
