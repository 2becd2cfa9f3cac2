package event_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
)

// connectNotified returns a connection with LOCK.NOTIFY ON.
func connectNotified(t testing.TB, s *lockcmd.Service) *locktest.Client {
	t.Helper()
	c := locktest.Connect(t, s)
	c.Resp3 = true
	locktest.Want(t, c.Do("LOCK.NOTIFY", "ON"), "+OK")
	return c
}

// orderRecorder is a connection that records the order of notices and closes.
type orderRecorder struct {
	*locktest.Client
	order chan string
}

func newOrderRecorder(t testing.TB, s *lockcmd.Service) *orderRecorder {
	t.Helper()
	o := &orderRecorder{locktest.Connect(t, s), make(chan string, 10)}
	o.Resp3 = true
	o.Carrier = s.NewCarrier(locktest.LastConn.Add(1), lockcmd.Client{Name: locktest.TestClientName}, o, o)
	locktest.Want(t, o.Do("LOCK.NOTIFY", "ON"), "+OK")
	return o
}

func (o *orderRecorder) Push(frame []byte) bool {
	pushes := o.Client.Push(frame)
	if len(frame) > 0 {
		o.order <- "told"
	}
	return pushes
}
func (o *orderRecorder) End(key []byte, reason string) {
	o.Client.End(key, reason)
	o.order <- "closed"
}
func (o *orderRecorder) wantOrder(events ...string) {
	o.T.Helper()
	for _, want := range events {
		if got := locktest.Woken(o.T, o.order); got != want {
			o.T.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestR27NotifyReportsALossBeforeTheConnectionCloses(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for name, end := range map[string]func(key string){
			"gone": func(key string) {
				rdb.Del(context.Background(), key)
				s.Watchdog.CheckAll()
			},
			"broken":  func(key string) { locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":1") },
			"maxhold": func(string) {},
		} {
			a, key := newOrderRecorder(t, s), locktest.NewKey()
			options := []string{key}
			if name == "maxhold" {
				options = append(options, "MAXHOLD", "4000")
			}
			token := a.Token(options...)
			end(key)
			a.wantOrder("told", "closed")
			a.WantNotice("lost", key, token)
			locktest.Want(t, <-a.Losses, key+" "+name)
			a.WantNoNotice()
		}
	})
}

// TestR27NotifyWithOnLossError: The connection stays open. It gets a notice and also the error
// reply.
func TestR27NotifyWithOnLossError(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, quiet := connectNotified(t, s), locktest.Connect(t, s)
		token := a.Token(key, "ONLOSS", "ERROR")
		other := locktest.NewKey()
		quiet.Token(other, "ONLOSS", "ERROR")
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":1")
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", other), ":1")
		a.WantNotice("lost", key, token)
		locktest.Want(t, a.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "broken"))
		locktest.Want(t, quiet.Do("LOCK.TTL", other), "-"+locktest.MsgLost(other, "broken"))
		a.WantNoNotice()
		quiet.WantNoNotice()
		released := locktest.NewKey()
		token = a.Token(released, "OWNER", "me") // an orderly release sends no notice
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.RELEASE", released, "TOKEN", strconv.FormatInt(token, 10)),
			":1")
		a.Token(locktest.NewKey(), "LEASE", "4000")
		locktest.Eventually(t, 5*time.Second, "its lease is over", func() bool { return a.Carrier.Holds() == 0 })
		a.WantNoNotice()
	})
}

func TestR27NotifyOfPermitsAndQuorum(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, sem := connectNotified(t, s), locktest.NewKey()
	locktest.Want(t, a.Do("SEM.INIT", sem, "1"), ":1")
	permit := a.Do("SEM.ACQUIRE", sem)[len("$32\r\n"):]
	s.Holds.Find(locktest.LockOf(sem), func(*hold.Hold) bool { return true }).Lost("gone")
	if got := locktest.Woken(t, a.Pushes); got != "lost "+sem+" $32 "+permit {
		t.Errorf("told %q", got)
	}
	a = connectNotified(t, s)
	keys := []string{locktest.NewKey(), locktest.NewKey(), locktest.NewKey()}
	locktest.WantPrefix(t, a.Do("LOCK.MACQUIRE", "3", keys[0], keys[1], keys[2], "QUORUM", "2", "ONLOSS", "ERROR"),
		"*3")
	lose := func(key string) int64 {
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		h.Lost("gone")
		return h.Token
	}
	lose(keys[0])
	a.WantNoNotice() // the quorum still holds
	rest := s.Holds.Find(locktest.LockOf(keys[2]), func(*hold.Hold) bool { return true }).Token
	a.WantNotice("lost", keys[1], lose(keys[1]))
	a.WantNotice("lost", keys[2], rest)
}

func TestNotifyReportsAWaiter(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		for name, other := range map[string]*lockcmd.Service{"here": s,
			"on another Leash": locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)} {
			for _, mode := range []string{"", "FAIR", "WRITE", "READ"} {
				var options []string
				waits := []string{"BLOCK", "0"}
				if mode != "" {
					options = append(options, mode)
					waits = append(waits, map[string]string{"READ": "WRITE"}[mode]+
						map[string]string{"FAIR": "FAIR", "WRITE": "WRITE"}[mode])
				}
				a, b, c, key := connectNotified(t, s), locktest.Connect(t, other), locktest.Connect(t, other),
					locktest.NewKey()
				token := a.Token(append([]string{key}, options...)...)
				second := connectNotified(t, s)
				var secondToken int64
				if mode == "READ" {
					secondToken = second.Token(key, "READ")
				}
				first := b.Await(other, 1, key, waits...)
				a.WantNotice("wanted", key, token)
				if mode == "READ" {
					second.WantNotice("wanted", key, secondToken)
					locktest.Want(t, second.Do("LOCK.RELEASE", key), ":1")
				}
				then := c.Await(other, 2, key, waits...)
				locktest.Deliver(s, event.Text(event.Wanted, token, a.Carrier.Name,
					key)) // a repeated report of a waiter
				a.WantNoNotice() // one notice only
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				locktest.TokenOf(t, locktest.Woken(t, first))
				locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
				locktest.TokenOf(t, locktest.Woken(t, then))
				a.WantNoNotice()
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b, c := connectNotified(t, s), connectNotified(t, s), locktest.Connect(t, s)
		a.Token(key, "ONCLOSE", "EXPIRE", "OWNER", "a")
		got := b.Await(s, 1, key, "BLOCK", "0", "OWNER", "b")
		locktest.Woken(t, a.Pushes)
		last := c.Await(s, 2, key, "BLOCK", "0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		token := locktest.TokenOf(t, locktest.Woken(t, got))
		b.WantNotice("wanted", key, token)
		d := connectNotified(t, s)
		locktest.Want(t, d.Do("LOCK.ATTACH", key, "OWNER", "b", "TOKEN", strconv.FormatInt(token, 10)),
			":"+strconv.FormatInt(token, 10))
		d.WantNotice("wanted", key, token)
		locktest.Want(t, d.Do("LOCK.NOTIFY", "OFF"), "+OK")
		locktest.Want(t, d.Do("lock.notify", "on"), "+OK")
		d.WantNotice("wanted", key, token)
		locktest.Want(t, d.Do("LOCK.NOTIFY", "OFF"), "+OK")
		locktest.Want(t, d.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Woken(t, last))
		d.WantNoNotice()
		if !s.Holds.Notifying() { // a and b are
			t.Error("nobody is told")
		}
		a.Carrier.End(lockcmd.Release)
		b.Carrier.End(lockcmd.Release)
		if s.Holds.Notifying() {
			t.Error("somebody who is gone is told")
		}
	})
}

// TestNotifyReplyComesFirst: The client gets the reply of a command before any notice about the
// hold.
func TestNotifyReplyComesFirst(t *testing.T) {
	t.Parallel()
	s, key := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{},
		locktest.SlowRetries), locktest.NewKey()
	a, b := connectNotified(t, s), locktest.Connect(t, s)
	reply := string(a.Carrier.Do(a.Ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key), []byte("ONLOSS"),
		[]byte("ERROR")}))
	token := locktest.TokenOf(t, reply[:len(reply)-2])
	b.Await(s, 1, key, "BLOCK", "0")
	a.WantNoNotice()
	a.Carrier.Answered()
	a.WantNotice("wanted", key, token)
	other := locktest.NewKey()
	reply = string(a.Carrier.Do(a.Ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(other), []byte("ONLOSS"),
		[]byte("ERROR")}))
	token = locktest.TokenOf(t, reply[:len(reply)-2])
	s.Holds.Find(locktest.LockOf(other), func(*hold.Hold) bool { return true }).Lost("gone")
	a.WantNoNotice()
	a.Carrier.Answered()
	a.WantNotice("lost", other, token)
	b.Gone()
}

// TestNotifyWaitsForTheReply: A waiter on another Leash is reported before the client has the reply
// to its acquire. The notice comes after the reply, and once.
func TestNotifyWaitsForTheReply(t *testing.T) {
	t.Parallel()
	s, key := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{},
		locktest.SlowRetries), locktest.NewKey()
	a := connectNotified(t, s)
	reply := string(a.Carrier.Do(a.Ctx, nil, [][]byte{[]byte("LOCK.ACQUIRE"), []byte(key)}))
	token := locktest.TokenOf(t, reply[:len(reply)-2])
	// now the hold exists, and its client has no reply yet
	locktest.Deliver(s, event.Text(event.Wanted, token, a.Carrier.Name, key))
	a.WantNoNotice()
	a.Carrier.Answered()
	a.WantNotice("wanted", key, token)
	locktest.Deliver(s, event.Text(event.Wanted, token, a.Carrier.Name, key))
	a.WantNoNotice()
}

// TestNotifyMacquire: A waiter for one key is reported after all keys were granted. A key that is
// released again causes no notice.
func TestNotifyMacquire(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		a, b, c := connectNotified(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		first, second := locktest.NewKey(), locktest.NewKey()
		if first > second {
			first, second = second, first
		}
		b.Token(second)
		reply := a.Start("LOCK.MACQUIRE", "2", first, second, "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "it waits for the second", func() bool {
			return s.Waiting(locktest.LockOf(second)) == 1
		})
		waits := c.Await(s, 1, first, "BLOCK", "0")
		a.WantNoNotice()
		locktest.Want(t, b.Do("LOCK.RELEASE", second), ":1")
		locktest.WantPrefix(t, locktest.Woken(t, reply), "*2")
		a.WantNotice("wanted", first, s.Holds.Find(locktest.LockOf(first), func(*hold.Hold) bool { return true }).Token)
		locktest.Want(t, a.Do("LOCK.MRELEASE", "2", first, second), ":2")
		locktest.TokenOf(t, locktest.Woken(t, waits))
		a.WantNoNotice()
	})
}

func TestNotifyArguments(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a := locktest.Connect(t, s)
	locktest.Want(t, a.Do("LOCK.NOTIFY"), "-ERR wrong number of arguments for 'lock.notify' command")
	locktest.Want(t, a.Do("LOCK.NOTIFY", "ON", "OFF"), "-ERR wrong number of arguments for 'lock.notify' command")
	locktest.Want(t, a.Do("LOCK.NOTIFY", "x"), "-ERR syntax error")
	locktest.Want(t, a.Do("LOCK.NOTIFY", "ON"), "-"+refusal.NoPushes)
	locktest.Want(t, a.Do("LOCK.NOTIFY", "OFF"), "+OK")
	a.Token("ON", "ONLOSS", "ERROR")
	locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", "ON"), ":1")
	a.Resp3 = true
	locktest.Want(t, a.Do("LOCK.NOTIFY", "ON"), "+OK") // LOCK.NOTIFY is not about that lock
	locktest.Want(t, a.Do("LOCK.TTL", "ON"), "-"+locktest.MsgLost("ON", "broken"))
}
