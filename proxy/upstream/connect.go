package upstream

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
)

const (
	// how long Connect waits before it logs why an attempt has failed
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
	w := waitingLog{up: u}
	for gap := minConnectGap; ; gap = min(2*gap, maxConnectGap) {
		err := guard.Call(u.log, "connecting to redis", func() error { return u.connectOnce(ctx, began) })
		switch {
		case err == nil:
			if w.logged != "" {
				waited := time.Since(began).Round(time.Millisecond)
				u.log.Info("redis answers", "upstream", u.cfg.Addrs, "waited", waited)
			}
			return nil
		case isPermanent(err):
			return u.Dialer.Explained(err)
		case ctx.Err() != nil:
			return err
		case u.cfg.Wait >= 0 && time.Since(began)+gap > u.cfg.Wait:
			return u.Dialer.Explained(err)
		}
		if time.Since(began) > logAfter {
			w.note(u.Dialer.Explained(err).Error())
		}
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
	if err := u.discover(ctx, time.Now()); err != nil || u.cfg.Mode != "cluster" {
		return err
	}
	return u.checkAddrs(ctx)
}

// checkAddrs returns an error if a configured address is a Redis outside the cluster. Otherwise
// each Leash would choose one of two clusters by chance, and both would grant the same lock. It
// asks all addresses at once, and ignores those that do not answer.
func (u *Upstream) checkAddrs(ctx context.Context) error {
	wrong := make(chan error, len(u.cfg.Addrs))
	for _, addr := range u.cfg.Addrs {
		go func() {
			wrong <- guard.Call(u.log, "question for the cluster", func() error {
				if u.isForeign(u.layoutAt(ctx, addr)) {
					return fmt.Errorf("%s: %w", addr, errNotOneCluster)
				}
				return nil
			})
		}()
	}
	var err error
	for range u.cfg.Addrs {
		err = cmp.Or(err, <-wrong)
	}
	return err
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

// waitingLog logs what Connect waits for, once for each reason in a row.
type waitingLog struct {
	up     *Upstream
	logged string // the last reason that was logged; empty: none
}

// note logs why an attempt has failed, unless the last line says the same.
func (w *waitingLog) note(reason string) {
	if !dial.SameReason(reason, w.logged) {
		w.logged = reason
		w.up.log.Warn("waiting for redis", "upstream", w.up.cfg.Addrs, "err", reason)
	}
}
