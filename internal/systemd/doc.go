// Package systemd does what a service of systemd is asked to do: it takes sockets that systemd has
// opened for it (LISTEN_FDS, see sd_listen_fds(3)), and tells systemd that it is ready, alive or
// about to stop (NOTIFY_SOCKET, see sd_notify(3)). Without systemd, it does nothing.
package systemd
