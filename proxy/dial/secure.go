package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// startTLS makes a connection to addr one with TLS. The server's certificate must have the
// ServerName of config, or, if that is empty, the host of addr. After an error, socket is closed.
func startTLS(ctx context.Context, addr string, socket net.Conn, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			socket.Close()
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	if end, ok := ctx.Deadline(); ok {
		_ = socket.SetDeadline(
			time.Now().Add(time.Until(end) * 3 / 4)) // the caller gets the reason before its own time is over
	}
	conn := tls.Client(socket, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		socket.Close()
		return nil, &handshakeError{err}
	}
	_ = socket.SetDeadline(time.Time{})
	return &secureConn{conn}, nil
}

// handshakeError means that a server was reached, but there is no TLS with it.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return fmt.Sprintf("TLS handshake: %v", e.err) }
func (e *handshakeError) Unwrap() error { return e.err }

// explainedTLS adds the settings to check to an error about TLS.
func (d *Dialer) explainedTLS(err error) error {
	_, handshake := errors.AsType[*handshakeError](err)
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case !handshake && ended && d.cfg.TLS == nil:
		return fmt.Errorf("%w: the server there closes connections: if it expects TLS, give --upstream-tls", err)
	case !handshake && ended:
		return fmt.Errorf("%w: the server there closes connections: check --upstream-tls-cert", err)
	case !handshake:
		return err
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: check --upstream-tls-ca", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w: use the names of the certificate in --upstream, or give --upstream-tls-server-name", err)
	}
	return fmt.Errorf("%w: check that the server there speaks TLS, and --upstream-tls-cert", err)
}

// secureConn is a TLS connection that ends at once. tls.Conn's own Close waits for up to 5 s while
// the socket takes no bytes.
type secureConn struct{ *tls.Conn }

// Close closes the socket.
func (c *secureConn) Close() error { return c.NetConn().Close() }
