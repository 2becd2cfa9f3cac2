package program

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"leash/internal/config"
	"leash/internal/systemd"
	"leash/proxy"
	"leash/proxy/client"
	"leash/proxy/upstream"
)

// connect waits for Redis. Until Redis answers, clients get an error.
func connect(ctx context.Context, up *upstream.Upstream, listeners []net.Listener, log *slog.Logger) error {
	stop := client.Refuse(listeners, proxy.NotReady, log)
	defer stop()
	return up.Connect(ctx)
}

// listen opens the ports without TLS, and then those with TLS. It takes systemd's sockets for them.
func listen(cfg config.Config, c certificates) ([]net.Listener, error) {
	sockets, err := systemd.Inherit()
	if err != nil {
		return nil, err
	}
	defer sockets.Close()
	all, err := client.Listen(cfg.Listen, sockets.Listen)
	if err == nil && c.clients != nil {
		var secure []net.Listener
		secure, err = client.ListenTLS(cfg.TLSListen, sockets.Listen, c.clients.Config)
		all = append(all, secure...)
	}
	if err = errors.Join(err, sockets.Unused()); err != nil {
		closeAll(all)
		return nil, err
	}
	return all, nil
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		ln.Close()
	}
}

// addresses are where the listeners listen. Port 0 has become the port that the system chose.
func addresses(listeners []net.Listener) (addrs []string) {
	for _, ln := range listeners {
		addr := ln.Addr().String()
		if ln.Addr().Network() == "unix" {
			addr = "unix:" + addr
		}
		addrs = append(addrs, addr)
	}
	return addrs
}
