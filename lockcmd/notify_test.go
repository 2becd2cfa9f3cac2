package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
)

// connectNotified returns a connection with LOCK.NOTIFY ON.
func connectNotified(t testing.TB, s *Service) *conn {
	t.Helper()
	c := connect(t, s)
	c.resp3 = true
	want(t, c.do("LOCK.NOTIFY", "ON"), "+OK")
	return c
}

// wantNotice checks the next notice.
func (c *conn) wantNotice(word, key string, token int64) {
	c.t.Helper()
	if got, want := woken(c.t, c.pushes), word+" "+key+" "+strconv.FormatInt(token, 10); got != want {
		c.t.Fatalf("told %q, want %q", got, want)
	}
}

// wantNoNotice fails if there is another notice.
func (c *conn) wantNoNotice() {
	c.t.Helper()
	select {
	case got := <-c.pushes:
		c.t.Fatalf("told %q, want nothing", got)
	default:
	}
}

// orderRecorder is a connection that records the order of notices and closes.
type orderRecorder struct {
	*conn
	order chan string
}

func newOrderRecorder(t testing.TB, s *Service) *orderRecorder {
	t.Helper()
	o := &orderRecorder{connect(t, s), make(chan string, 10)}
	o.resp3 = true
	o.carrier = s.NewCarrier(lastConn.Add(1), Client{Name: testClientName}, o, o)
	want(t, o.do("LOCK.NOTIFY", "ON"), "+OK")
	return o
}

func (o *orderRecorder) Push(frame []byte) bool {
	pushes := o.conn.Push(frame)
	if len(frame) > 0 {
		o.order <- "told"
	}
	return pushes
}
func (o *orderRecorder) End(key []byte, reason string) {
	o.conn.End(key, reason)
	o.order <- "closed"
}
func (o *orderRecorder) wantOrder(events ...string) {
	o.t.Helper()
	for _, want := range events {
		if got := woken(o.t, o.order); got != want {
			o.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestR27NotifyReportsALossBeforeTheConnectionCloses(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for name, end := range map[string]func(key string){
			"gone": func(key string) {
				rdb.Del(context.Background(), key)
				s.Watchdog.CheckAll()
			},
			"broken":  func(key string) { want(t, connect(t, s).do("LOCK.BREAK", key), ":1") },
			"maxhold": func(string) {},
		} {
			a, key := newOrderRecorder(t, s), newKey()
			options := []string{key}
			if name == "maxhold" {
				options = append(options, "MAXHOLD", "4000")
			}
			token := a.token(options...)
			end(key)
			a.wantOrder("told", "closed")
			a.wantNotice("lost", key, token)
			want(t, <-a.losses, key+" "+name)
			a.wantNoNotice()
		}
	})
}

// TestR27NotifyWithOnLossError: The connection stays open. It gets a notice and also the error
// reply.
func TestR27NotifyWithOnLossError(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, quiet := connectNotified(t, s), connect(t, s)
		token := a.token(key, "ONLOSS", "ERROR")
		other := newKey()
		quiet.token(other, "ONLOSS", "ERROR")
		want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
		want(t, connect(t, s).do("LOCK.BREAK", other), ":1")
		a.wantNotice("lost", key, token)
		want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "broken"))
		want(t, quiet.do("LOCK.TTL", other), "-"+msgLost(other, "broken"))
		a.wantNoNotice()
		quiet.wantNoNotice()
		released := newKey()
		token = a.token(released, "OWNER", "me") // an orderly release sends no notice
		want(t, connect(t, s).do("LOCK.RELEASE", released, "TOKEN", strconv.FormatInt(token, 10)), ":1")
		a.token(newKey(), "LEASE", "4000")
		eventually(t, 5*time.Second, "its lease is over", func() bool { return a.carrier.Holds() == 0 })
		a.wantNoNotice()
	})
}

func TestR27NotifyOfPermitsAndQuorum(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, sem := connectNotified(t, s), newKey()
	want(t, a.do("SEM.INIT", sem, "1"), ":1")
	permit := a.do("SEM.ACQUIRE", sem)[len("$32\r\n"):]
	s.Holds.Find(lockOf(sem), func(*hold.Hold) bool { return true }).Lost("gone")
	if got := woken(t, a.pushes); got != "lost "+sem+" $32 "+permit {
		t.Errorf("told %q", got)
	}
	a = connectNotified(t, s)
	keys := []string{newKey(), newKey(), newKey()}
	wantPrefix(t, a.do("LOCK.MACQUIRE", "3", keys[0], keys[1], keys[2], "QUORUM", "2", "ONLOSS", "ERROR"), "*3")
	lose := func(key string) int64 {
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		h.Lost("gone")
		return h.Token
	}
	lose(keys[0])
	a.wantNoNotice() // the quorum still holds
	rest := s.Holds.Find(lockOf(keys[2]), func(*hold.Hold) bool { return true }).Token
	a.wantNotice("lost", keys[1], lose(keys[1]))
	a.wantNotice("lost", keys[2], rest)
}

func TestNotifyReportsAWaiter(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		for name, other := range map[string]*Service{"here": s,
			"on another Leash": leash(t, rdb, Config{}, slowRetries)} {
			for _, mode := range []string{"", "FAIR", "WRITE", "READ"} {
				var options []string
				waits := []string{"BLOCK", "0"}
				if mode != "" {
					options = append(options, mode)
					waits = append(waits, map[string]string{"READ": "WRITE"}[mode]+
						map[string]string{"FAIR": "FAIR", "WRITE": "WRITE"}[mode])
				}
				a, b, c, key := connectNotified(t, s), connect(t, other), connect(t, other), newKey()
				token := a.token(append([]string{key}, options...)...)
				second := connectNotified(t, s)
				var secondToken int64
				if mode == "READ" {
					secondToken = second.token(key, "READ")
				}
				first := b.await(other, 1, key, waits...)
				a.wantNotice("wanted", key, token)
				if mode == "READ" {
					second.wantNotice("wanted", key, secondToken)
					want(t, second.do("LOCK.RELEASE", key), ":1")
				}
				then := c.await(other, 2, key, waits...)
				s.receive(event.Text(event.Wanted, token, a.carrier.Name, key)) // a repeated report of a waiter
				a.wantNoNotice()                                                // one notice only
				want(t, a.do("LOCK.RELEASE", key), ":1")
				tokenOf(t, woken(t, first))
				want(t, b.do("LOCK.RELEASE", key), ":1")
				tokenOf(t, woken(t, then))
				a.wantNoNotice()
				if t.Failed() {
					t.Fatal(name, mode)
				}
			}
		}
	})
}

// TestNotifyReportsExistingWaiters: A waiter that already waits is reported when a hold is granted
// or moved, and when the client turns on notices.
func TestNotifyReportsExistingWaiters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, b, c := connectNotified(t, s), connectNotified(t, s), connect(t, s)
		a.token(key, "ONCLOSE", "EXPIRE", "OWNER", "a")
		got := b.await(s, 1, key, "BLOCK", "0", "OWNER", "b")
		woken(t, a.pushes)
		last := c.await(s, 2, key, "BLOCK", "0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		token := tokenOf(t, woken(t, got))
		b.wantNotice("wanted", key, token)
		d := connectNotified(t, s)
		want(t, d.do("LOCK.ATTACH", key, "OWNER", "b", "TOKEN", strconv.FormatInt(token, 10)),
			":"+strconv.FormatInt(token, 10))
		d.wantNotice("wanted", key, token)
		want(t, d.do("LOCK.NOTIFY", "OFF"), "+OK")
		want(t, d.do("lock.notify", "on"), "+OK")
		d.wantNotice("wanted", key, token)
		want(t, d.do("LOCK.NOTIFY", "OFF"), "+OK")
		want(t, d.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, woken(t, last))
		d.wantNoNotice()
		if !s.Holds.Notifying() { // a and b are
			t.Error("nobody is told")
		}
		a.carrier.End(Release)
		b.carrier.End(Release)
		if s.Holds.Notifying() {
			t.Error("somebody who is gone is told")
		}
	})
}

// TestNotifyReplyComesFirst: The client gets the reply of a command before any notice about the
// hold.
func TestNotifyReplyComesFirst(t *testing.T) {
	t.Parallel()
	s, key := leash(t, dialServer(t, sharedServer(t).Addr), Config{}, slowRetries), newKey()
	a, b := connectNotified(t, s), connect(t, s)
	reply := string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key), []byte("ONLOSS"),
		[]byte("ERROR")}))
	token := tokenOf(t, reply[:len(reply)-2])
	b.await(s, 1, key, "BLOCK", "0")
	a.wantNoNotice()
	a.carrier.Answered()
	a.wantNotice("wanted", key, token)
	other := newKey()
	reply = string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(other), []byte("ONLOSS"),
		[]byte("ERROR")}))
	token = tokenOf(t, reply[:len(reply)-2])
	s.Holds.Find(lockOf(other), func(*hold.Hold) bool { return true }).Lost("gone")
	a.wantNoNotice()
	a.carrier.Answered()
	a.wantNotice("lost", other, token)
	b.gone()
}

// TestNotifyWaitsForTheReply: A waiter on another Leash is reported before the client has the reply
// to its acquire. The notice comes after the reply, and once.
func TestNotifyWaitsForTheReply(t *testing.T) {
	t.Parallel()
	s, key := leash(t, dialServer(t, sharedServer(t).Addr), Config{}, slowRetries), newKey()
	a := connectNotified(t, s)
	reply := string(a.carrier.Do(a.ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)}))
	token := tokenOf(t, reply[:len(reply)-2])
	// now the hold exists, and its client has no reply yet
	s.receive(event.Text(event.Wanted, token, a.carrier.Name, key))
	a.wantNoNotice()
	a.carrier.Answered()
	a.wantNotice("wanted", key, token)
	s.receive(event.Text(event.Wanted, token, a.carrier.Name, key))
	a.wantNoNotice()
}

// TestNotifyMacquire: A waiter for one key is reported after all keys were granted. A key that is
// released again causes no notice.
func TestNotifyMacquire(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		a, b, c := connectNotified(t, s), connect(t, s), connect(t, s)
		first, second := newKey(), newKey()
		if first > second {
			first, second = second, first
		}
		b.token(second)
		reply := a.start("LOCK.MACQUIRE", "2", first, second, "BLOCK", "0")
		eventually(t, 5*time.Second, "it waits for the second", func() bool {
			return s.Waiting(lockOf(second)) == 1
		})
		waits := c.await(s, 1, first, "BLOCK", "0")
		a.wantNoNotice()
		want(t, b.do("LOCK.RELEASE", second), ":1")
		wantPrefix(t, woken(t, reply), "*2")
		a.wantNotice("wanted", first, s.Holds.Find(lockOf(first), func(*hold.Hold) bool { return true }).Token)
		want(t, a.do("LOCK.MRELEASE", "2", first, second), ":2")
		tokenOf(t, woken(t, waits))
		a.wantNoNotice()
	})
}

func TestNotifyArguments(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a := connect(t, s)
	want(t, a.do("LOCK.NOTIFY"), "-ERR wrong number of arguments for 'lock.notify' command")
	want(t, a.do("LOCK.NOTIFY", "ON", "OFF"), "-ERR wrong number of arguments for 'lock.notify' command")
	want(t, a.do("LOCK.NOTIFY", "x"), "-ERR syntax error")
	want(t, a.do("LOCK.NOTIFY", "ON"), "-"+refusal.NoPushes)
	want(t, a.do("LOCK.NOTIFY", "OFF"), "+OK")
	a.token("ON", "ONLOSS", "ERROR")
	want(t, connect(t, s).do("LOCK.BREAK", "ON"), ":1")
	a.resp3 = true
	want(t, a.do("LOCK.NOTIFY", "ON"), "+OK") // LOCK.NOTIFY is not about that lock
	want(t, a.do("LOCK.TTL", "ON"), "-"+msgLost("ON", "broken"))
}
