package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A poller waits for sockets to be readable, and for some to be writable (epoll, level-triggered).
type poller struct {
	fd     int
	events []unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd, events: make([]unix.EpollEvent, 256)}, nil
}

func (p *poller) close() error {
	return unix.Close(p.fd)
}

// add watches fd; wait then reports id for it.
func (p *poller) add(fd, id int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)})
}

// writable sets whether wait also reports fd when it is writable.
func (p *poller) writable(fd, id int, on bool) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)}
	if on {
		event.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &event)
}

// wait calls ready for each id that is ready, and returns after at most the timeout.
func (p *poller) wait(timeout time.Duration, ready func(id int) error) error {
	n, err := unix.EpollWait(p.fd, p.events, int(timeout.Milliseconds()))
	if err == unix.EINTR {
		return nil
	}
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, event := range p.events[:n] {
		if err := ready(int(event.Fd)); err != nil {
			return err
		}
	}
	return nil
}
