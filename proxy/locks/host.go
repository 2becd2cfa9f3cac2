package locks

import (
	"time"

	"leash/lockcmd"
	"leash/proxy/links"
)

// host is a Client as package lockcmd sees it.
type host Client

var (
	_ lockcmd.Host    = (*host)(nil)
	_ lockcmd.Silence = (*host)(nil)
)

// End implements lockcmd.Host. lockcmd has logged and counted a loss.
func (h *host) End(_ []byte, reason string) {
	cause := "lock lost: " + reason
	if reason == lockcmd.ReasonMoved {
		cause = "lock moved to another connection"
	}
	h.Session.Cut(cause)
}

// Watch implements lockcmd.Host.
func (h *host) Watch(a lockcmd.Attention) {
	if a != lockcmd.Waiting {
		h.Conn.Guard(a == lockcmd.Guarded) // the session check restores keepalives later
		return
	}
	if w := h.watcher.Load(); w != nil {
		w.Start()
	}
}

// Push implements lockcmd.Host.
func (h *host) Push(frame []byte) bool {
	if len(frame) > 0 {
		return h.Session.Notify(frame)
	}
	h.Router.Mu.Lock()
	defer h.Router.Mu.Unlock()
	return h.Router.Lane.RESP3
}

// BeginSilence is called when the session is about to wait for bytes of the client.
//
// A client that waits for a reply is not silent, because it is not expected to send. Its silence
// begins when it has the last of its replies. The silence of a client that does not read its
// replies begins when its socket last accepted bytes. Holds with IDLE depend on it.
func (l *Client) BeginSilence() {
	if l.Carrier() != nil {
		l.silence.Store(int64(links.Now()))
	}
}

// EndSilence is called when bytes have come.
func (l *Client) EndSilence() {
	if l.silence.Load() != 0 {
		l.silence.Store(0)
	}
}

// RestartSilence is called when the client has got the last of its replies. Safe for concurrent
// use.
func (l *Client) RestartSilence() {
	if at := l.silence.Load(); at != 0 {
		l.silence.CompareAndSwap(at, int64(links.Now()))
	}
}

// SilentSince implements lockcmd.Silence.
func (h *host) SilentSince() time.Time {
	h.Router.Mu.Lock()
	owed := h.Router.Calls.LenLocked() > 0
	if since := h.Router.Out.StalledSinceLocked(); !since.IsZero() && h.Router.Calls.FullLocked() {
		h.Router.Mu.Unlock()
		return since
	}
	h.Router.Mu.Unlock()
	at := h.silence.Load()
	// With unread bytes in the socket, Leash itself was stopped or slow. The client was not silent.
	if owed || at == 0 || h.Conn.HasUnread() {
		return time.Time{}
	}
	return links.At(time.Duration(at))
}
