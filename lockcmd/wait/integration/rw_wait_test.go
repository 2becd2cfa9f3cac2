package wait_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

func TestR18ReadersGoInTogether(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		w := locktest.Connect(t, s)
		w.Token(key, "WRITE")
		var replies []<-chan string
		var readers []*locktest.Client
		for n := range 8 {
			where := []*lockcmd.Service{s, other}[n%2]
			r := locktest.Connect(t, where)
			readers = append(readers, r)
			replies = append(replies, r.Await(where, n/2+1, key, "READ", "BLOCK", "0"))
		}
		last := locktest.Connect(t, s)
		writes := last.Await(s, 5, key, "WRITE", "BLOCK", "0")
		late := locktest.Connect(t, s)
		behind := late.Await(s, 6, key, "READ", "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "both listen", func() bool {
			return locktest.Listeners(t, rdb, script.RWChannel(key)) == 2
		})
		locktest.Want(t, w.Do("LOCK.RELEASE", key), ":1")
		tokens := make(map[int64]bool)
		for _, reply := range replies {
			tokens[locktest.TokenOf(t, locktest.Woken(t, reply))] = true
		}
		if len(tokens) != len(replies) {
			t.Errorf("got tokens %v, want one each", tokens)
		}
		for _, r := range readers {
			if len(writes)+len(behind) != 0 {
				t.Fatal("a writer got in beside readers, or a reader before a writer who was there first")
			}
			locktest.Want(t, r.Do("LOCK.RELEASE", key), ":1")
		}
		locktest.TokenOf(t, locktest.Receive(t, writes, 5*time.Second))
		if len(behind) != 0 {
			t.Fatal("a reader got in beside a writer")
		}
		locktest.Want(t, last.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, behind, 5*time.Second))
		locktest.Want(t, late.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, append(readers, w, last, late)...)
	})
}

func TestR18WaitingWriterIsNotOvertaken(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, w, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s),
			locktest.Connect(t, s)
		a.Token(key, "READ", "OWNER", "a")
		writes := w.Await(s, 1, key, "WRITE", "OWNER", "w", "BLOCK", "4000")
		second := b.Await(s, 2, key, "READ", "OWNER", "b", "BLOCK", "0")
		third := c.Await(s, 3, key, "READ", "BLOCK", "0")
		a.Token(key, "READ", "OWNER", "a", "BLOCK", "0")                    // a holder may acquire again
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key, "READ"), "$-1")          // nobody else overtakes the writer (R21)
		locktest.Want(t, locktest.Receive(t, writes, 5*time.Second), "$-1") // the writer gives up
		locktest.TokenOf(t, locktest.Woken(t, second))
		locktest.TokenOf(t, locktest.Woken(t, third))
		for _, r := range []*locktest.Client{a, b, c} {
			locktest.Want(t, r.Do("LOCK.RELEASE", key, "ALL"), ":1")
		}
		locktest.WantNothing(t, rdb, key, a, b, c, d, w)
	})
}

func TestR18ModesDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key)
		reads := b.Await(s, 1, key, "READ", "BLOCK", "0")
		plain := c.Await(s, 2, key, "BLOCK", "0")
		writes := d.Await(s, 3, key, "WRITE", "BLOCK", "0")
		conns := map[<-chan string]*locktest.Client{reads: b, plain: c, writes: d}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		for len(conns) > 0 { // the other mode is not woken by a release and must retry
			var reply string
			var in *locktest.Client
			select {
			case reply = <-reads:
				in = b
				delete(conns, reads)
			case reply = <-plain:
				in = c
				delete(conns, plain)
			case reply = <-writes:
				in = d
				delete(conns, writes)
			case <-time.After(locktest.Soon):
				t.Fatalf("%d wait on", len(conns))
			}
			locktest.TokenOf(t, reply)
			locktest.Want(t, in.Do("LOCK.RELEASE", key), ":1")
		}
		locktest.WantNothing(t, rdb, key, a, b, c, d)
	})
}

func TestReadWriteWakesAndIsWokenByRedisson(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey(),
			context.Background()
		a, b, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewJavaRW(t, rdb, key, "1")

		// what Java receives from Leash
		plain, sharded := rdb.Subscribe(ctx, script.RWChannel(key)), rdb.SSubscribe(ctx, script.RWChannel(key))
		defer plain.Close()
		defer sharded.Close()
		for _, sub := range []*redis.PubSub{plain, sharded} {
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		waitUntilSubscribed := func(payload string) {
			t.Helper()
			for _, sub := range []*redis.PubSub{plain, sharded} {
				if m := locktest.Receive(t, sub.Channel(), 3*time.Second); m.Payload != payload {
					t.Errorf("java hears %q, want %q", m.Payload, payload)
				}
			}
		}
		a.Token(key, "READ")
		b.Token(key, "READ")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1") // no waiter can get in after this release
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("0")
		a.Token(key, "WRITE", "OWNER", "me")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("1")
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		waitUntilSubscribed("1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("0")

		// what Leash receives from Java
		for _, row := range []struct {
			option  string
			take    func(time.Duration) bool
			release func() any
		}{{"WRITE", j.Read, j.Unread}, {"READ", j.Write, j.Unwrite}, {"WRITE", j.Write, j.Unwrite}} {
			j.In(row.take(30 * time.Second))
			reply := a.Await(s, 1, key, row.option, "BLOCK", "0")
			locktest.Eventually(t, 5*time.Second, "we listen", func() bool {
				return locktest.Listeners(t, rdb, script.RWChannel(key)) == 2
			})
			<-time.After(50 * time.Millisecond) // the attempt that follows the subscription has ended
			row.release()
			locktest.TokenOf(t, locktest.Woken(t, reply))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			<-plain.Channel()
		}
	})
}

// TestDeadReaders: A reader whose lease has expired blocks nobody any more. Its end does not affect
// other holders.
func TestDeadReaders(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b, c, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other),
			locktest.NewJavaRW(t, rdb, key, "1")
		j.In(j.Read(4 * time.Second))                          // these end with their leases
		a.Token(key, "READ", "OWNER", "dead", "LEASE", "4000") //
		b.Token(key, "READ", "OWNER", "alive")
		writes := c.Await(other, 1, key, "WRITE", "BLOCK", "0")
		locktest.Eventually(t, 2*time.Second, "they are over", func() bool {
			return locktest.ReadTimeout(rdb, key, "dead", 1) < 0 && locktest.ReadTimeout(rdb, key, j.Owner, 1) < 0
		})
		if got := locktest.InRedis(t, rdb, key); got["dead"] != "1" || got[j.Owner] != "1" || got["alive"] != "1" {
			t.Errorf("got %v", got)
		}
		info := locktest.Fields(t, a.Do("LOCK.INFO", key))
		if info["owner"] != "alive" || info["holds"] != "1" {
			t.Errorf("got %v", info)
		}
		locktest.Eventually(t, 2*time.Second, "the lease is dropped", func() bool { return a.Carrier.Holds() == 0 })
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "dead"), "-"+refusal.NotHeld)
		b.Token(key, "READ", "OWNER", "dead") // the same owner may acquire again, beside a hold of its connection
		locktest.Want(t, locktest.Count(rdb, key, "dead"), "1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		if len(writes) != 0 {
			t.Fatal("a writer got in beside a reader")
		}
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Woken(t, writes)) // the expired readers do not block the writer
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b, c)

		// no holder is left to release, so the lock ends with the last lease, whatever its TTL
		began := time.Now()
		j.In(j.Read(300 * time.Millisecond))
		rdb.PExpire(context.Background(), key, time.Minute)
		c.Token(key, "WRITE", "BLOCK", "0")
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("the writer got in after %v", took)
		}
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")

		// a WRITE lease expires while its owner still reads, so other readers may enter
		d := locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{})) // nobody wakes d, so it must retry
		began = time.Now()
		a.Token(key, "WRITE", "OWNER", "me", "LEASE", "6000")
		a.Token(key, "READ", "OWNER", "me")
		d.Token(key, "READ", "BLOCK", "0")
		if took := time.Since(began); took < 6*time.Second || took > locktest.Soon {
			t.Errorf("the reader got in after %v", took)
		}
		locktest.Want(t, locktest.InRedis(t, rdb, key)["mode"], "read")
		locktest.Want(t, d.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ"), ":1")
		locktest.Eventually(t, 2*time.Second, "the lease is dropped", func() bool { return a.Carrier.Holds() == 0 })
		locktest.WantNothing(t, rdb, key, a, b, c, d)
	})
}

func TestR21ReadersAndWritersHandOver(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		for _, row := range [][2]string{{"WRITE", "WRITE"}, {"WRITE", "READ"}, {"READ", "WRITE"}} {
			key := locktest.NewKey()
			locktest.SubscribeFirst(t, s, script.RWChannel(key), key)
			a, b, c, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s),
				locktest.NewJavaRW(t, rdb, key, "1")
			old := a.Token(key, row[0], "OWNER", "a")
			if row[0] == "READ" { // a reader whose lease has expired
				j.In(j.Read(50 * time.Millisecond))
			}
			<-time.After(60 * time.Millisecond)
			first := b.Await(s, 1, key, row[1], "OWNER", "b", "BLOCK", "0")
			second := c.Await(s, 2, key, "READ", "BLOCK", "0")
			before := s.Stats().Handovers
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			if token := locktest.TokenOf(t, locktest.Receive(t, first, 3*time.Second)); token <= old {
				t.Errorf("got token %d after %d", token, old)
			}
			if n := s.Stats().Handovers - before; n != 1 {
				t.Errorf("%v: got %d hand-overs, want one", row, n)
			}
			got := locktest.InRedis(t, rdb, key)
			field := map[string]string{"WRITE": "b:write", "READ": "b"}[row[1]]
			if got["mode"] != strings.ToLower(row[1]) || got[field] != "1" ||
				got["a"]+got["a:write"]+got[j.Owner] != "" {
				t.Errorf("%v: got %v", row, got)
			}
			if left := locktest.ReadTimeout(rdb, key, "a", 1); left > 0 {
				t.Errorf("%v: a timeout key is left for %v", row, left)
			}
			if row[1] == "WRITE" {
				j.Out(j.Read(time.Second))
				locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
			}
			locktest.TokenOf(t, locktest.Receive(t, second, 3*time.Second))
			if row[1] == "READ" {
				locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
			}
			locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
			locktest.WantNothing(t, rdb, key, a, b, c)
		}

		// no hand-over while others read, here or elsewhere, or when the owner still reads
		key := locktest.NewKey()
		locktest.SubscribeFirst(t, s, script.RWChannel(key), key)
		a, b, c, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s),
			locktest.NewJavaRW(t, rdb, key, "1")
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		first := b.Await(s, 1, key, "WRITE", "BLOCK", "0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		a.Token(key, "READ", "OWNER", "other")
		j.In(j.Read(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		<-time.After(100 * time.Millisecond)
		if len(first) != 0 {
			t.Fatal("a writer got in beside a reader")
		}
		j.Unread()
		locktest.TokenOf(t, locktest.Receive(t, first, 3*time.Second))
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b, c)
	})
}

// TestR21HandOverToAReaderThatAlreadyHolds: A reader has got the lock by its own attempt before the
// hand-over to it runs. The hand-over must not report success falsely.
func TestR21HandOverToAReaderThatAlreadyHolds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Token(key, "READ", "OWNER", "me", "LEASE", "600000")
		a.Token(key, "READ", "OWNER", "me", "LEASE", "600000")
		waits := b.AcquireOf(script.Read, key, "")
		got := b.Send(waits)
		defer hold.New(&b.Carrier.Carrier.Carrier, &hold.Grant{ // no client was told of this hold
			Key: key, Mode: script.Read, Owner: waits.Grant.Owner, Token: got.Token, TTL: time.Minute,
		}).Apply(hold.ClosedToRelease)
		h := &locktest.HeldBy{T: t, Rdb: rdb, Mode: script.Read, Key: key, Token: token, Carrier: a.Carrier.Name}
		keys := script.Read.EndKeys(key, script.TokenKey(key))
		hand := func(number int64) []any {
			args := h.Hand(token, h.Carrier, number)
			args[5], args[6], args[7] = waits.Grant.Owner, b.Carrier.Name, waits.Grant.Request
			return append(args, script.Read.Name)
		}
		first, second := a.Carrier.Requests.Add(1), a.Carrier.Requests.Add(1)
		h.Call("[0]", script.Read.Handover, keys, hand(first)...)
		h.Call("[0]", script.Read.Handover, keys, hand(first)...)
		h.Call("[1]", script.Read.Handover, keys, hand(second)...)
		locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":0")
		reply, err := locktest.RunScript(t.Context(), rdb, script.Read.Handover, keys,
			transport.Words(hand(second)...)...)
		if err != nil || !strings.HasPrefix(fmt.Sprint(reply), fmt.Sprint("[1 ", got.Token, " ")) {
			t.Errorf("a repetition was answered %v, %v", reply, err)
		}
		locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(got.Token, 10)), ":1")
	})
}
