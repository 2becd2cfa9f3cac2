package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// notified is a connection of a client that is told of its locks.
func notified(t testing.TB, s *Service) *conn {
	t.Helper()
	c := connect(t, s)
	c.resp3 = true
	want(t, c.do("LOCK.NOTIFY", "ON"), "+OK")
	return c
}

// told takes the next notice.
func (c *conn) told(word, key string, token int64) {
	c.t.Helper()
	if got, want := woken(c.t, c.pushes), word+" "+key+" "+strconv.FormatInt(token, 10); got != want {
		c.t.Fatalf("told %q, want %q", got, want)
	}
}

// toldNothing fails if there is a notice that was not taken.
func (c *conn) toldNothing() {
	c.t.Helper()
	select {
	case got := <-c.pushes:
		c.t.Fatalf("told %q, want nothing", got)
	default:
	}
}

// orderly is a connection that keeps the order in which it is told and closed.
type orderly struct {
	*conn
	order chan string
}

func newOrderly(t testing.TB, s *Service) *orderly {
	t.Helper()
	o := &orderly{connect(t, s), make(chan string, 10)}
	o.resp3 = true
	o.carrier = s.NewCarrier(lastConn.Add(1), o)
	want(t, o.do("LOCK.NOTIFY", "ON"), "+OK")
	return o
}

func (o *orderly) Push(frame []byte)              { o.conn.Push(frame); o.order <- "told" }
func (o *orderly) Lost(key []byte, reason string) { o.conn.Lost(key, reason); o.order <- "closed" }
func (o *orderly) Moved(key []byte)               { o.conn.Moved(key); o.order <- "closed" }
func (o *orderly) wantOrder(events ...string) {
	o.t.Helper()
	for _, event := range events {
		if got := woken(o.t, o.order); got != event {
			o.t.Fatalf("got %q, want %q", got, event)
		}
	}
}

func TestR27NotifyTellsOfALossBeforeTheConnectionCloses(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{WatchdogTimeout: 900 * time.Millisecond})
		for name, end := range map[string]func(key string){
			"gone":    func(key string) { rdb.Del(context.Background(), key) },
			"broken":  func(key string) { want(t, connect(t, s).do("LOCK.BREAK", key), ":1") },
			"maxhold": func(string) {},
		} {
			a, key := newOrderly(t, s), newKey()
			options := []string{key}
			if name == "maxhold" {
				options = append(options, "MAXHOLD", "300")
			}
			token := a.token(options...)
			end(key)
			a.wantOrder("told", "closed")
			a.told("lost", key, token)
			want(t, <-a.losses, key+" "+name)
			a.toldNothing()
		}
	})
}

// TestR27NotifyWithOnLossError: the connection stays, is told, and is answered all the same.
func TestR27NotifyWithOnLossError(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, quiet := notified(t, s), connect(t, s)
		token := a.token(key, "ONLOSS", "ERROR")
		other := newKey()
		quiet.token(other, "ONLOSS", "ERROR")
		want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
		want(t, connect(t, s).do("LOCK.BREAK", other), ":1")
		a.told("lost", key, token)
		want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "broken"))
		want(t, quiet.do("LOCK.TTL", other), "-"+msgLost(other, "broken"))
		a.toldNothing()
		quiet.toldNothing()
		released := newKey()
		token = a.token(released, "OWNER", "me") // a rightful end is no news
		want(t, connect(t, s).do("LOCK.RELEASE", released, "TOKEN", strconv.FormatInt(token, 10)), ":1")
		a.token(newKey(), "LEASE", "3000")
		eventually(t, 5*time.Second, "its lease is over", func() bool { return a.carrier.Holds() == 0 })
		a.toldNothing()
	})
}

func TestR27NotifyOfPermitsAndQuorum(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, sem := notified(t, s), newKey()
	want(t, a.do("SEM.INIT", sem, "1"), ":1")
	permit := a.do("SEM.ACQUIRE", sem)[len("$32\r\n"):]
	s.find(lockID{0, sem}, func(*hold) bool { return true }).Lost("gone")
	if got := woken(t, a.pushes); got != "lost "+sem+" $32 "+permit {
		t.Errorf("told %q", got)
	}
	a = notified(t, s)
	keys := []string{newKey(), newKey(), newKey()}
	wantPrefix(t, a.do("LOCK.MACQUIRE", "3", keys[0], keys[1], keys[2], "QUORUM", "2", "ONLOSS", "ERROR"), "*3")
	lose := func(key string) int64 {
		h := s.find(lockID{0, key}, func(*hold) bool { return true })
		h.Lost("gone")
		return h.token
	}
	lose(keys[0])
	a.toldNothing() // a quorum is left
	rest := s.find(lockID{0, keys[2]}, func(*hold) bool { return true }).token
	a.told("lost", keys[1], lose(keys[1]))
	a.told("lost", keys[2], rest)
}

func TestNotifyTellsThatSomebodyWaits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, patient)
		for name, other := range map[string]*Service{"here": s, "on another Leash": leash(t, rdb, Config{}, patient)} {
			for _, mode := range []string{"", "FAIR", "WRITE", "READ"} {
				var options []string
				waits := []string{"BLOCK", "0"}
				if mode != "" {
					options = append(options, mode)
					waits = append(waits, map[string]string{"READ": "WRITE"}[mode]+map[string]string{"FAIR": "FAIR", "WRITE": "WRITE"}[mode])
				}
				a, b, c, key := notified(t, s), connect(t, other), connect(t, other), newKey()
				token := a.token(append([]string{key}, options...)...)
				second := notified(t, s)
				var secondToken int64
				if mode == "READ" {
					secondToken = second.token(key, "READ")
				}
				first := b.await(other, 1, key, waits...)
				a.told("wanted", key, token)
				if mode == "READ" {
					second.told("wanted", key, secondToken)
					want(t, second.do("LOCK.RELEASE", key), ":1")
				}
				then := c.await(other, 2, key, waits...)
				s.reportWanted(lockID{0, key}) // as what a waiter says again
				a.toldNothing()                // once
				want(t, a.do("LOCK.RELEASE", key), ":1")
				tokenOf(t, woken(t, first))
				want(t, b.do("LOCK.RELEASE", key), ":1")
				tokenOf(t, woken(t, then))
				a.toldNothing()
				if t.Failed() {
					t.Fatal(name, mode)
				}
			}
		}
	})
}

// TestNotifyLooksForThoseWhoWaitAlready: when a hold is granted, moved, or its client asks to be
// told.
func TestNotifyLooksForThoseWhoWaitAlready(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, patient), newKey()
		a, b, c := notified(t, s), notified(t, s), connect(t, s)
		a.token(key, "ONCLOSE", "EXPIRE", "OWNER", "a")
		got := b.await(s, 1, key, "BLOCK", "0", "OWNER", "b")
		woken(t, a.pushes)
		last := c.await(s, 2, key, "BLOCK", "0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		token := tokenOf(t, woken(t, got))
		b.told("wanted", key, token)
		d := notified(t, s)
		want(t, d.do("LOCK.ATTACH", key, "OWNER", "b", "TOKEN", strconv.FormatInt(token, 10)), ":"+strconv.FormatInt(token, 10))
		d.told("wanted", key, token)
		b.told("granted", key, token)
		want(t, d.do("LOCK.NOTIFY", "OFF"), "+OK")
		want(t, d.do("lock.notify", "on"), "+OK")
		d.told("wanted", key, token)
		want(t, d.do("LOCK.NOTIFY", "OFF"), "+OK")
		want(t, d.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, woken(t, last))
		d.toldNothing()
		if n := s.notifying.Load(); n != 2 { // a and b
			t.Errorf("%d are told, want 2", n)
		}
		a.carrier.End(Release)
		b.carrier.End(Release)
		if n := s.notifying.Load(); n != 0 {
			t.Errorf("%d are told, and are gone", n)
		}
	})
}

// TestNotifyAnswersFirst: nothing is told of a hold before the client has the answer that tells of
// it.
func TestNotifyAnswersFirst(t *testing.T) {
	t.Parallel()
	s, key := leash(t, dialServer(t, sharedServer(t).Addr), Config{}, patient), newKey()
	a, b := notified(t, s), connect(t, s)
	reply := string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key), []byte("ONLOSS"), []byte("ERROR")}))
	token := tokenOf(t, reply[:len(reply)-2])
	b.await(s, 1, key, "BLOCK", "0")
	a.toldNothing()
	a.carrier.Answered()
	a.told("wanted", key, token)
	other := newKey()
	reply = string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(other), []byte("ONLOSS"), []byte("ERROR")}))
	token = tokenOf(t, reply[:len(reply)-2])
	s.find(lockID{0, other}, func(*hold) bool { return true }).Lost("gone")
	a.toldNothing()
	a.carrier.Answered()
	a.told("lost", other, token)
	b.gone()
}

// TestNotifyKeepsNewsThatOvertakesTheGrant: of who waits on another Leash.
func TestNotifyKeepsEventsThatOvertakeTheGrant(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key, ctx := leash(t, rdb, Config{}, patient), newKey(), context.Background()
	a := notified(t, s)
	token := int64(1) << 52
	rdb.Set(ctx, tokenKey(key), token-1, 0)
	s.receiveEvent(holdEventText(wantedEvent, token, a.carrier.name, key)) // the hold is not in the books
	reply := string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)}))
	want(t, reply, ":"+strconv.FormatInt(token, 10)+"\r\n")
	a.toldNothing()
	a.carrier.Answered()
	a.told("wanted", key, token)

	key = newKey()
	reply = string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)}))
	token = tokenOf(t, reply[:len(reply)-2])
	// and here it is, but its client has no answer
	s.receiveEvent(holdEventText(wantedEvent, token, a.carrier.name, key))
	a.toldNothing()
	a.carrier.Answered()
	a.told("wanted", key, token)
	s.receiveEvent(holdEventText(wantedEvent, token, a.carrier.name, key))
	a.toldNothing()
}

// TestNotifyMacquire: who waits for one of the locks is told of when all are there, and what went
// back is no news.
func TestNotifyMacquire(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, patient)
		a, b, c := notified(t, s), connect(t, s), connect(t, s)
		first, second := newKey(), newKey()
		if first > second {
			first, second = second, first
		}
		b.token(second)
		reply := a.start("LOCK.MACQUIRE", "2", first, second, "BLOCK", "0")
		eventually(t, 5*time.Second, "it waits for the second", func() bool { return s.queues.length(lockID{0, second}) == 1 })
		waits := c.await(s, 1, first, "BLOCK", "0")
		a.toldNothing()
		want(t, b.do("LOCK.RELEASE", second), ":1")
		wantPrefix(t, woken(t, reply), "*2")
		a.told("wanted", first, s.find(lockID{0, first}, func(*hold) bool { return true }).token)
		want(t, a.do("LOCK.MRELEASE", "2", first, second), ":2")
		tokenOf(t, woken(t, waits))
		a.toldNothing()
	})
}

// TestNotifyTellsWhoHasTheLockInstead: by moving the hold, or after a loss, through this Leash,
// another one, or Redisson.
func TestNotifyTellsWhoHasTheLockInstead(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, elsewhere := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, other := range []*Service{s, elsewhere} {
			a, key := newOrderly(t, s), newKey()
			token := a.token(key, "OWNER", "me")
			text := strconv.FormatInt(token, 10)
			b := connect(t, other)
			want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", text), ":"+text)
			a.wantOrder("told", "closed")
			a.told("granted", key, token)

			repeated := notified(t, s)
			key = newKey()
			token = repeated.token(key, "OWNER", "me", "ID", "1")
			if got := b.token(key, "OWNER", "me", "ID", "1"); got != token {
				t.Fatalf("got %d, want the token %d", got, token)
			}
			repeated.told("granted", key, token)

			for _, mode := range [][]string{{}, {"WRITE"}, {"READ"}} {
				a, b, key := notified(t, s), connect(t, other), newKey()
				token := a.token(append([]string{key, "ONLOSS", "ERROR"}, mode...)...)
				want(t, b.do("LOCK.BREAK", key), ":1")
				a.told("lost", key, token)
				if len(mode) == 1 {
					mode = []string{"WRITE"}
				}
				a.told("granted", key, b.token(append([]string{key}, mode...)...))
				a.toldNothing()
			}
		}
		a, key := notified(t, s), newKey()
		token := a.token(key, "ONLOSS", "ERROR")
		want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
		a.told("lost", key, token)
		rdb.HSet(context.Background(), key, newUUID()+":1", 1)
		rdb.PExpire(context.Background(), key, time.Minute)
		a.told("granted", key, 0)

		a.token(newKey(), "ONLOSS", "ERROR") // who takes it again itself is not told
		again := newKey()
		token = a.token(again, "ONLOSS", "ERROR")
		want(t, connect(t, elsewhere).do("LOCK.BREAK", again), ":1")
		a.told("lost", again, token)
		want(t, a.do("LOCK.TTL", again), "-"+msgLost(again, "broken"))
		a.token(again)
		if n := s.successorWaits.Load(); n != 0 {
			t.Errorf("%d are looked for, want none", n)
		}
		a.toldNothing()
		again = newKey()
		a.token(again, "ONLOSS", "ERROR")
		want(t, connect(t, s).do("LOCK.BREAK", again), ":1")
		woken(t, a.pushes)
		a.carrier.End(Release)
		eventually(t, 5*time.Second, "nobody is looked for", func() bool { return s.successorWaits.Load() == 0 })
	})
}

func TestNotifyArguments(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a := connect(t, s)
	want(t, a.do("LOCK.NOTIFY"), "-ERR wrong number of arguments for 'lock.notify' command")
	want(t, a.do("LOCK.NOTIFY", "ON", "OFF"), "-ERR wrong number of arguments for 'lock.notify' command")
	want(t, a.do("LOCK.NOTIFY", "x"), "-ERR syntax error")
	want(t, a.do("LOCK.NOTIFY", "ON"), "-"+msgNoPushes)
	want(t, a.do("LOCK.NOTIFY", "OFF"), "+OK")
	a.token("ON", "ONLOSS", "ERROR")
	want(t, connect(t, s).do("LOCK.BREAK", "ON"), ":1")
	a.resp3 = true
	want(t, a.do("LOCK.NOTIFY", "ON"), "+OK") // which is not about that lock
	want(t, a.do("LOCK.TTL", "ON"), "-"+msgLost("ON", "broken"))
}
