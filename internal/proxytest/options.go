package proxytest

import (
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/proxy/subscribers"
)

// WithPassword gives Leash the password of Secured.
func WithPassword(o *Options) { o.Upstream.Password = "secret" }

// LimitSubscribers sets how much output of subscriptions may wait for one client.
func LimitSubscribers(to subscribers.Limits) func(*Options) {
	return func(o *Options) { o.Front.SubscriberLimits = to }
}

// Watchdog sets the watchdog timeout of locks.
func Watchdog(d time.Duration) func(*Options) {
	return func(o *Options) { o.Locks = lockcmd.Config{WatchdogTimeout: d} }
}

// StartBehindSentinels starts a proxy that is given only the sentinels' addresses.
func StartBehindSentinels(t *testing.T, g *redistest.SentinelGroup, opts ...func(*Options)) *Leash {
	t.Helper()
	return Start(t, g.Addrs()[:1], append([]func(*Options){
		func(o *Options) { o.Upstream.SentinelMaster = g.Name }}, opts...)...)
}
