package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"leash/internal/tlsfiles"
)

// answerTime is how long a Leash may take for an answer that does not wait for a lock.
const answerTime = 15 * time.Second

// connectTime is how long a Leash may take to accept a connection and to answer PING.
const connectTime = 3 * time.Second

// serverList is what --server and the flags about it say.
type serverList struct {
	text         string
	passwordFile string
	tls          tlsfiles.Files // for rediss:// URLs
}

// options are the settings for each Leash of the list, in its order.
func (s *serverList) options() (list []*redis.Options, err error) {
	password := ""
	if s.passwordFile != "" {
		text, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--password-file: %w", err)
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	secure, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(s.text, ",") {
		o, err := parseServer(strings.TrimSpace(entry), secure)
		if err != nil {
			return nil, err
		}
		if password != "" {
			o.Password = password
		}
		list = append(list, o)
	}
	return list, nil
}

// tlsConfig reads the files for rediss:// URLs.
func (s *serverList) tlsConfig() (*tls.Config, error) {
	switch {
	case (s.tls.Cert == "") != (s.tls.Key == ""):
		return nil, errors.New("--tls-cert and --tls-key belong together: give both")
	case s.tls != tlsfiles.Files{} && !strings.Contains(s.text, "rediss://"):
		return nil, errors.New("--tls-ca, --tls-cert and --tls-key are for rediss:// URLs: give one with --server")
	}
	flags := tlsfiles.Flags{Cert: "tls-cert", Key: "tls-key", CA: "tls-ca"}
	source, err := tlsfiles.Client(s.tls, flags, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return source.Config(), nil
}

// parseServer reads one address. secure has the certificates for a URL with TLS. The error does not
// repeat a URL, which may have a password.
func parseServer(entry string, secure *tls.Config) (*redis.Options, error) {
	o := &redis.Options{}
	path, isUnix := strings.CutPrefix(entry, "unix:")
	switch {
	case strings.Contains(entry, "://"):
		parsed, err := redis.ParseURL(entry)
		if err != nil {
			return nil, errors.New("--server: this URL cannot be read, it should be redis://[user:password@]host:port[/db]")
		}
		o = parsed
	case isUnix:
		o.Network, o.Addr = "unix", path
	default:
		if _, _, err := net.SplitHostPort(entry); err != nil {
			return nil, fmt.Errorf("--server %q: want host:port, unix:/path or a URL", entry)
		}
		o.Addr = entry
	}
	o.MaxRetries, o.PoolSize, o.Protocol, o.DisableIdentity = -1, 1, 2, true
	o.ContextTimeoutEnabled, o.ReadTimeout, o.DialTimeout = true, -1, connectTime
	o.ClientName = clientName()
	dialer := &net.Dialer{Timeout: connectTime, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	o.Dialer = dialer.DialContext
	if o.TLSConfig != nil {
		o.TLSConfig.RootCAs, o.TLSConfig.Certificates = secure.RootCAs, secure.Certificates
		o.Dialer = (&tls.Dialer{NetDialer: dialer, Config: o.TLSConfig}).DialContext
	}
	return o, nil
}

// clientName shows in CLIENT LIST and LOCK.INFO which process of which host holds a lock.
func clientName() string {
	host, err := os.Hostname()
	if err != nil || strings.ContainsAny(host, " \n") {
		host = "unknown"
	}
	return fmt.Sprintf("leash-lock:%s:%d", host, os.Getpid())
}

// session is one connection to a Leash. It is for one goroutine, but close may be called by any.
type session struct {
	client *redis.Client
	conn   *redis.Conn
}

// errUnreachable is the error when no Leash of the list answers.
var errUnreachable = errors.New("no Leash answers")

// open connects to the first Leash of the list that answers PING. If all that answer refuse it, the
// error is the first refusal, such as NOAUTH.
func (s *serverList) open(ctx context.Context) (*session, error) {
	list, err := s.options()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	var errs []error
	for _, o := range list {
		client := redis.NewClient(o)
		x := &session{client: client, conn: client.Conn()}
		_, err := x.do(ctx, connectTime, "PING")
		if err == nil {
			return x, nil
		}
		x.close()
		errs = append(errs, err)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	err = errors.Join(errs...)
	var refusal redis.Error
	if errors.As(err, &refusal) {
		return nil, &exitError{exitFailed, refusal}
	}
	return nil, &exitError{exitUnavailable, fmt.Errorf("%w: %w", errUnreachable, err)}
}

// do sends a command and returns its reply. A reply of nil is redis.Nil. limit is how long the
// reply may take; 0 is without limit. When ctx ends, the connection is closed.
func (x *session) do(ctx context.Context, limit time.Duration, args ...any) (any, error) {
	defer context.AfterFunc(ctx, x.close)()
	timed := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		timed, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	reply, err := x.conn.Do(timed, args...).Result()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return reply, err
}

func (x *session) close() {
	x.conn.Close()
	x.client.Close()
}

// ask sends one command to the first Leash that answers.
func ask(c *cobra.Command, servers *serverList, args ...any) (any, error) {
	x, err := servers.open(c.Context())
	if err != nil {
		return nil, err
	}
	defer x.close()
	reply, err := x.do(c.Context(), answerTime, args...)
	if err != nil {
		return nil, &exitError{exitFailed, errors.New(err.Error())}
	}
	return reply, nil
}
