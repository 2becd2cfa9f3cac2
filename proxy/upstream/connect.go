package upstream

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
)

const (
	// how long Connect waits before it logs that the upstream does not answer
	logAfter       = time.Second
	minConnectGap  = 200 * time.Millisecond // between two attempts of Connect, doubled each time
	maxConnectGap  = 2 * time.Second
	minAttemptTime = time.Second // shortest time for one attempt, also near the end of Config.Wait
)

// Connect finds out what the upstream is and which nodes it has. While no Redis answers, it logs
// the reason and tries again, until ctx is done or Config.Wait is over. Settings that cannot work
// end it at once. Examples are a wrong password and a wrong mode. Connect must return nil before
// anything else is used.
func (u *Upstream) Connect(ctx context.Context) error {
	began := time.Now()
	w := &waitingLog{up: u, reason: "no answer yet"}
	timer := time.AfterFunc(logAfter, guard.Func(u.log, "waiting for redis", func() { w.note("", true) }))
	defer timer.Stop()
	for gap := minConnectGap; ; gap = min(2*gap, maxConnectGap) {
		err := guard.Call(u.log, "connecting to redis", func() error { return u.connectOnce(ctx, began) })
		switch {
		case err == nil:
			w.over(time.Since(began))
			return nil
		case isPermanent(err):
			return u.Dialer.Explained(err)
		case ctx.Err() != nil:
			return err
		case u.cfg.Wait >= 0 && time.Since(began)+gap > u.cfg.Wait:
			return u.Dialer.Explained(err)
		}
		w.note(u.Dialer.Explained(err).Error(), false)
		links.Pause(ctx, gap)
	}
}

// connectOnce asks once. It blocks for at most the upstream time-out. It also ends soon after
// Config.Wait, if that is positive.
func (u *Upstream) connectOnce(ctx context.Context, began time.Time) error {
	timeout := u.Dialer.Timeout()
	if u.cfg.Wait > 0 {
		timeout = min(timeout, max(u.cfg.Wait-time.Since(began), minAttemptTime))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := u.probe(ctx); err != nil {
		return err
	}
	return u.discover(ctx, time.Now())
}

// isPermanent reports whether another try cannot help. Leash's settings or Redis's must change
// first.
func isPermanent(err error) bool { return dial.IsAuthError(err) || isWrongMode(err) }

// clearerError returns the error to report after several nodes were asked. An error that only other
// settings can fix is more helpful than an unreachable node.
func clearerError(old, next error) error {
	if old != nil && isPermanent(old) {
		return old
	}
	return next
}

// waitingLog logs what Connect waits for: once after logAfter, and again when the reason changes.
type waitingLog struct {
	up *Upstream

	mu     sync.Mutex
	due    bool   // logAfter is over
	reason string // why the last attempt failed
	logged string // the last reason that was logged; empty: none
}

// note records why an attempt has failed, unless that is empty. due means that logAfter is over.
func (w *waitingLog) note(reason string, due bool) {
	w.mu.Lock()
	w.due, w.reason = w.due || due, cmp.Or(reason, w.reason)
	reason = w.reason
	isNew := w.due && withoutDigits(reason) != withoutDigits(w.logged)
	if isNew {
		w.logged = reason
	}
	w.mu.Unlock()
	if isNew {
		w.up.log.Warn("waiting for redis", "upstream", w.up.cfg.Addrs, "err", reason)
	}
}

// withoutDigits returns what tells one reason from another. Times, and the ports of Leash's own
// sockets, are different in each attempt.
func withoutDigits(reason string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, reason)
}

// over logs the end of the wait, if the wait was logged.
func (w *waitingLog) over(waited time.Duration) {
	w.mu.Lock()
	logged := w.logged != ""
	w.mu.Unlock()
	if logged {
		w.up.log.Info("redis answers", "upstream", w.up.cfg.Addrs, "waited", waited.Round(time.Millisecond))
	}
}
