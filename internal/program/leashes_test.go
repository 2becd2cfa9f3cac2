package program

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestTwoLeashes: a waiter at one Leash gets a lock that is held at the other one when it is
// released. If the holder's Leash is killed, the waiter gets it after the TTL and not earlier. If
// the waiter's Leash is killed, nothing of the waiter remains in the way of other waiters.
func TestTwoLeashes(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	t.Run("the holder releases", func(t *testing.T) {
		for _, h := range p.hold(t, p.a, p.b, "released:", " TTL 600000") {
			h.run(h.holder, h.give)
			h.gets(h.waits, h.waiter)
		}
	})
	t.Run("the holder's Leash is killed", func(t *testing.T) {
		all := p.hold(t, p.a, p.b, "holder-killed:", "")
		p.answersOutlive(t, len(all), func() {
			for _, h := range all {
				h.ask()
			}
			p.a.Kill()
		})
		for _, h := range all {
			if at := h.gets(h.waits, h.waiter); at.Before(h.certain) {
				t.Errorf("%s: granted %v before the holder's hold was over", h.name, h.certain.Sub(at))
			}
		}
		restart(t, p.a)
	})
	t.Run("the waiter's Leash is killed", func(t *testing.T) {
		all := p.hold(t, p.a, p.b, "waiter-killed:", " TTL 600000")
		p.b.Kill()
		for _, h := range all {
			if dead := <-h.waiter; dead.err == nil {
				t.Errorf("%s: got %q from a killed Leash", h.name, dead.reply)
			}
			h.run(h.holder, h.give)
			next := redistest.Connect(t, p.a.Addr)
			h.gets(next, h.block(next))
		}
		restart(t, p.b)
	})
	t.Run("counters and latches", func(t *testing.T) { p.countsOutlive(t) })
}

// countsOutlive checks that counters and latches stay when a Leash is killed, and that its waiters
// take nothing with them.
func (p *pair) countsOutlive(t *testing.T) {
	a, b, c := redistest.Connect(t, p.a.Addr), redistest.Connect(t, p.b.Addr), redistest.Connect(t, p.b.Addr)
	a.Want(":1\r\n", "LATCH.SET", "latch", "3")
	a.Want(":2\r\n", "SEM.GIVE", "counter", "2")
	a.Want(":1\r\n", "SEM.TAKE", "counter")
	taking := (&contended{key: "counter", lockKind: lockKind{wait: "SEM.TAKE K 3"}}).block(b)
	opened := (&contended{key: "latch", lockKind: lockKind{wait: "LATCH.AWAIT K"}}).block(c)
	if err := p.b.AwaitInfo(ample, "waiters:2"); err != nil {
		t.Fatal(err)
	}
	a.Want(":2\r\n", "SEM.GIVE", "counter")
	a.Want(":2\r\n", "LATCH.DOWN", "latch")
	p.a.Kill()
	d := redistest.Connect(t, p.b.Addr)
	d.Want(":3\r\n", "SEM.GIVE", "counter")
	d.Want(":1\r\n", "LATCH.DOWN", "latch")
	d.Want(":0\r\n", "LATCH.DOWN", "latch")
	for _, waits := range []<-chan answer{taking, opened} {
		if got := <-waits; got.reply != ":1\r\n" {
			t.Errorf("got %q, %v", got.reply, got.err)
		}
	}
	restart(t, p.a)
	a = redistest.Connect(t, p.a.Addr)
	taking = (&contended{key: "counter", lockKind: lockKind{wait: "SEM.TAKE K"}}).block(a)
	if err := p.a.AwaitInfo(ample, "waiters:1"); err != nil {
		t.Fatal(err)
	}
	p.a.Kill()
	d.Want(":1\r\n", "SEM.GIVE", "counter")
	if got := <-taking; got.err == nil {
		t.Errorf("got %q from a killed Leash", got.reply)
	}
	d.Want(":1\r\n", "SEM.TAKE", "counter")
	restart(t, p.a)
}

// answersOutlive checks the holds of a Leash at the other Leash, before and after kill. The other
// Leash reports them, changes them and ends them, and its clients attach them. waiters is how many
// wait there already.
func (p *pair) answersOutlive(t *testing.T, waiters int, kill func()) {
	a, b := redistest.Connect(t, p.a.Addr), redistest.Connect(t, p.b.Addr)
	number := func(args ...string) string { return strings.Trim(a.Do(args...), ":\r\n") }
	renewed := number("LOCK.ACQUIRE", "mine:renewed")
	kept := number("LOCK.ACQUIRE", "mine:kept", "OWNER", "me", "TTL", "600000")
	number("LOCK.ACQUIRE", "mine:broken", "TTL", "600000")
	leased := number("LOCK.ACQUIRE", "mine:leased", "LEASE", "600000")
	b.Want(":1000\r\n", "LOCK.EXTEND", "mine:leased", "1000", "TOKEN", leased)
	b.Want(":900000\r\n", "LOCK.EXTEND", "mine:leased", "900000", "TOKEN", leased)
	awaits := &contended{key: "mine:renewed", lockKind: lockKind{wait: "LOCK.AWAITLOSS K TOKEN " + renewed}}
	lost := awaits.block(redistest.Connect(t, p.b.Addr))
	if err := p.b.AwaitInfo(ample, fmt.Sprint("waiters:", waiters+1)); err != nil {
		t.Fatal(err)
	}
	kill()
	b.Want(":1\r\n", "LOCK.CHECK", "mine:kept", "TOKEN", kept)
	b.Want(":1\r\n", "LOCK.CHECK", "mine:leased", "TOKEN", leased)
	b.Want(":2\r\n", "LOCK.BREAK", "mine:broken") // no Leash confirms it
	b.Want(":"+kept+"\r\n", "LOCK.ATTACH", "mine:kept", "OWNER", "me", "TOKEN", kept)
	b.Want(":900000\r\n", "LOCK.EXTEND", "mine:leased", "900000", "TOKEN", leased)
	if got := <-lost; got.reply != "$4\r\ngone\r\n" {
		t.Errorf("LOCK.AWAITLOSS was answered %q, %v", got.reply, got.err)
	}
	b.Want(":0\r\n", "LOCK.CHECK", "mine:renewed", "TOKEN", renewed)
	list := ""
	for cursor := ""; cursor != "0"; { // which is the first thing in the reply
		reply := b.Do("LOCK.LIST", cmp.Or(cursor, "0"), "MATCH", "mine:*", "COUNT", "1000")
		cursor = strings.Split(reply, "\r\n")[2]
		list += reply
	}
	for name, there := range map[string]bool{"renewed": false, "kept": true, "broken": false, "leased": true} {
		if strings.Contains(list, "mine:"+name) != there {
			t.Errorf("mine:%s: LOCK.LIST was answered %q", name, list)
		}
	}
	b.Want(":1\r\n", "LOCK.RELEASE", "mine:kept")
	b.Want(":1\r\n", "LOCK.RELEASE", "mine:leased", "TOKEN", leased)
}
