package links

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// Back-off between failed dials, doubled each time, ± half of it.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// logRefusal logs why there is no connection, if Redis gave a reason. If the node does not answer,
// the node's watch logs it once for all links. The dialer logs a refusal of Leash's own password.
// After an old password, the next dial is a success.
func (l *Link) logRefusal(err error) {
	level := slog.LevelWarn
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) ||
		errors.Is(err, dial.ErrOwnPassword) || errors.Is(err, dial.ErrOldPassword) {
		level = slog.LevelDebug
	}
	l.node.nodes.log.Log(context.Background(), level, "no connection to redis", "node", l.node.Addr, "user",
		l.lane.User, "err", err)
}

// dial makes the link's connection. On a pinned link it also asks for the client ID.
func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.node.Dial(ctx, l.lane)
	if err != nil || !l.pinned {
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.node.nodes.Dialer.Timeout())
	defer cancel()
	reply, err := dial.RoundTrip(ctx, conn, resp.AppendCommand(nil, "CLIENT", "ID"), ":")
	if err != nil {
		conn.Close()
		return nil, err
	}
	if reply[0] == ':' { // a user without the right to CLIENT ID gets a connection too
		id, _ := resp.ParseInt(reply[1 : len(reply)-2])
		l.clientID.Store(id)
	}
	return conn, nil
}

// mayBeRefused reports whether Redis may have closed the connection because the user was deleted.
// The sessions must learn of that even without another request, so the link dials again. A pinned
// link does not dial again. The lane's shared link does so instead.
func (l *Link) mayBeRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing == nil && l.lane.User != "" && !l.lane.Replica
}

// backOff waits before the next dial. Once the node has been unreachable for the redirect time-out,
// requests are lost at once instead of waiting. Reads from a replica are always lost at once,
// because the master can serve them. So are scripts, because the topology may name another node
// soon.
func (l *Link) backOff(ctx context.Context, downSince time.Time, d time.Duration, err error) {
	cause := error(ErrUnreachable)
	switch {
	case isRedisFull(err):
		cause = errRedisFull
	case errors.Is(err, dial.ErrOwnPassword):
		cause = dial.ErrOwnPassword
	}
	d = d/2 + rand.N(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	until := downSince.Add(l.node.nodes.Dialer.RedirectTimeout())
	late := time.NewTimer(time.Until(until)) // requests must not wait for the rest of the back-off
	defer late.Stop()
	for {
		overdue := l.lane.Replica || l.lane.Scripts || !time.Now().Before(until)
		if overdue {
			l.losePending(cause)
		}
		l.mu.Lock()
		closing := l.closing != nil
		l.idle = overdue && !closing
		l.mu.Unlock()
		if closing {
			return
		}
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-late.C:
		case <-l.wake:
		}
	}
}

// refuseCredential tells the lane's sessions that Redis refuses their credential, and loses their
// requests. A later request belongs to a session that has authenticated since. That request waits
// for the next dial.
func (l *Link) refuseCredential() {
	var refused []*Request
	for c := l.nextPending(); c != nil; c = l.nextPending() {
		refused = append(refused, c)
	}
	l.node.nodes.hooks.Refused(l.lane, l.node)
	for _, c := range refused {
		c.lost(l, false, dial.ErrRefused)
	}
}
