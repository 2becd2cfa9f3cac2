package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"leash/internal/faultproxy"
)

// What happens to clients and their network, by which nothing is forgotten and Redis goes on to
// answer Leash.
var clientFaults = []fault{
	{"clients: connections closed", false, false, func(l *lane) error { l.front().Cut(faultproxy.FIN); return nil }},
	{"clients: connections reset", false, false, func(l *lane) error { l.front().Cut(faultproxy.RST); return nil }},
	{"clients: network cut", false, false, func(l *lane) error { return l.freeze(l.front(), faultproxy.ToTarget, faultproxy.ToClient) }},
	{"clients: network cut to leash", false, false, func(l *lane) error { return l.freeze(l.front(), faultproxy.ToTarget) }},
	{"clients: network cut from leash", false, false, func(l *lane) error { return l.freeze(l.front(), faultproxy.ToClient) }},
	{"clients: half-open, clients gone", false, false, func(l *lane) error { return l.sever(l.front(), faultproxy.ClientSide) }},
	{"clients: half-open, leash gone", false, false, func(l *lane) error { return l.sever(l.front(), faultproxy.TargetSide) }},
	{"clients: slow network", false, false, func(l *lane) error { return l.slow(l.front(), 100*time.Millisecond) }},
	{"clients: narrow network", false, false, func(l *lane) error { return l.narrow(l.front(), 2_000) }},
	{"clients: kill -9", false, false, (*lane).killClients},
	{"clients: stopped", false, false, (*lane).stopClients},
}

// What happens to Leash itself.
var leashFaults = []fault{
	{"leash: stopped", false, false, (*lane).pauseLeash},
	{"leash: stopped for longer than a lease, with writes", false, false, (*lane).stopOver},
	{"leash: kill -9", false, false, (*lane).killLeash},
	{"leash: restart", false, false, (*lane).restartLeash},
}

func (l *lane) freeze(p *faultproxy.Proxy, ways ...faultproxy.Way) error {
	for _, way := range ways {
		p.FreezeWay(way)
	}
	l.lasts()
	p.Thaw()
	return nil
}

// sever lets one side of all connections vanish. The other learns it when it is said that there is
// nobody, later.
func (l *lane) sever(p *faultproxy.Proxy, side faultproxy.Side) error {
	p.Sever(side)
	l.flickers()
	p.Cut(faultproxy.RST)
	return nil
}

func (l *lane) slow(p *faultproxy.Proxy, most time.Duration) error {
	p.Delay(l.between(5*time.Millisecond, most))
	l.flickers()
	p.Delay(0)
	return nil
}

func (l *lane) narrow(p *faultproxy.Proxy, least int) error {
	p.Throttle(least + l.rnd.IntN(10*least))
	l.flickers()
	p.Throttle(0)
	return nil
}

func (l *lane) killClients() error {
	l.bed.processes.signal(syscall.SIGKILL, l.rnd)
	return nil
}

func (l *lane) stopClients() error {
	stopped := l.bed.processes.signal(syscall.SIGSTOP, l.rnd)
	l.lasts()
	for _, p := range stopped {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	}
	return nil
}

func (l *lane) pauseLeash() error {
	leash := l.leash()
	if err := leash.Pause(); err != nil {
		return err
	}
	l.lasts()
	return leash.Resume()
}

func (l *lane) killLeash() error {
	leash := l.leash()
	if leash.Crashed() {
		return fmt.Errorf("it had crashed: %s", leash.LogTail())
	}
	leash.Kill()
	l.weather.crowned(l.spell)
	time.Sleep(l.between(0, 2*time.Second))
	return leash.Restart(context.Background())
}

func (l *lane) restartLeash() error {
	leash := l.leash()
	if err := leash.Stop(); err != nil {
		return err
	}
	l.weather.crowned(l.spell)
	time.Sleep(l.between(0, 500*time.Millisecond))
	return leash.Restart(context.Background())
}
