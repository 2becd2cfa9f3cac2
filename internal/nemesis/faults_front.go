package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"leash/internal/faultproxy"
)

// clientFaults are the faults of clients and of their network. Redis loses nothing by them, and
// still answers Leash.
var clientFaults = []fault{
	{"clients: connections closed", false, false, func(l *injector) error { l.front().Cut(faultproxy.FIN); return nil }},
	{"clients: connections reset", false, false, func(l *injector) error { l.front().Cut(faultproxy.RST); return nil }},
	{"clients: network cut", false, false, func(l *injector) error { return l.freeze(l.front(), faultproxy.ToTarget, faultproxy.ToClient) }},
	{"clients: network cut to leash", false, false, func(l *injector) error { return l.freeze(l.front(), faultproxy.ToTarget) }},
	{"clients: network cut from leash", false, false, func(l *injector) error { return l.freeze(l.front(), faultproxy.ToClient) }},
	{"clients: half-open, clients gone", false, false, func(l *injector) error { return l.sever(l.front(), faultproxy.ClientSide) }},
	{"clients: half-open, leash gone", false, false, func(l *injector) error { return l.sever(l.front(), faultproxy.TargetSide) }},
	{"clients: slow network", false, false, func(l *injector) error { return l.slow(l.front(), 100*time.Millisecond) }},
	{"clients: narrow network", false, false, func(l *injector) error { return l.narrow(l.front(), 2_000) }},
	{"clients: kill -9", false, false, (*injector).killClients},
	{"clients: stopped", false, false, (*injector).stopClients},
}

// leashFaults are the faults of Leash itself.
var leashFaults = []fault{
	{"leash: stopped", false, false, (*injector).pauseLeash},
	{"leash: stopped for longer than a lease, with writes", false, false, (*injector).stopBeyondLease},
	{"leash: kill -9", false, false, (*injector).killLeash},
	{"leash: restart", false, false, (*injector).restartLeash},
}

func (l *injector) freeze(p *faultproxy.Proxy, ways ...faultproxy.Way) error {
	for _, way := range ways {
		p.FreezeWay(way)
	}
	l.longPause()
	p.Thaw()
	return nil
}

// sever makes one side of all connections vanish. The other side gets a reset later.
func (l *injector) sever(p *faultproxy.Proxy, side faultproxy.Side) error {
	p.ResetSide(side)
	l.shortPause()
	p.Cut(faultproxy.RST)
	return nil
}

func (l *injector) slow(p *faultproxy.Proxy, most time.Duration) error {
	p.Delay(l.between(5*time.Millisecond, most))
	l.shortPause()
	p.Delay(0)
	return nil
}

func (l *injector) narrow(p *faultproxy.Proxy, least int) error {
	p.Throttle(least + l.rnd.IntN(10*least))
	l.shortPause()
	p.Throttle(0)
	return nil
}

func (l *injector) killClients() error {
	l.bed.processes.signal(syscall.SIGKILL, l.rnd)
	return nil
}

func (l *injector) stopClients() error {
	stopped := l.bed.processes.signal(syscall.SIGSTOP, l.rnd)
	l.longPause()
	for _, p := range stopped {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	}
	return nil
}

func (l *injector) pauseLeash() error {
	leash := l.leash()
	if err := leash.Pause(); err != nil {
		return err
	}
	l.longPause()
	return leash.Resume()
}

func (l *injector) killLeash() error {
	leash := l.leash()
	if leash.Crashed() {
		return fmt.Errorf("a Leash has crashed: %s", leash.LogTail())
	}
	leash.Kill()
	l.timeline.NewMaster(l.period)
	time.Sleep(l.between(0, 2*time.Second))
	return leash.Restart(context.Background())
}

func (l *injector) restartLeash() error {
	leash := l.leash()
	if err := leash.Stop(); err != nil {
		return err
	}
	l.timeline.NewMaster(l.period)
	time.Sleep(l.between(0, 500*time.Millisecond))
	return leash.Restart(context.Background())
}
