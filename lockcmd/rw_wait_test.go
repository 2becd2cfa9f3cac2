package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

func TestR18ReadersGoInTogether(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		w := connect(t, s)
		w.token(key, "WRITE")
		var replies []<-chan string
		var readers []*conn
		for n := range 8 {
			where := []*Service{s, other}[n%2]
			r := connect(t, where)
			readers = append(readers, r)
			replies = append(replies, r.await(where, n/2+1, key, "READ", "BLOCK", "0"))
		}
		last := connect(t, s)
		writes := last.await(s, 5, key, "WRITE", "BLOCK", "0")
		late := connect(t, s)
		behind := late.await(s, 6, key, "READ", "BLOCK", "0")
		eventually(t, 5*time.Second, "both listen", func() bool {
			return listeners(t, rdb, script.RWChannel(key)) == 2
		})
		want(t, w.do("LOCK.RELEASE", key), ":1")
		tokens := make(map[int64]bool)
		for _, reply := range replies {
			tokens[tokenOf(t, woken(t, reply))] = true
		}
		if len(tokens) != len(replies) {
			t.Errorf("got tokens %v, want one each", tokens)
		}
		for _, r := range readers {
			if len(writes)+len(behind) != 0 {
				t.Fatal("a writer got in beside readers, or a reader before a writer who was there first")
			}
			want(t, r.do("LOCK.RELEASE", key), ":1")
		}
		tokenOf(t, receive(t, writes, 5*time.Second))
		if len(behind) != 0 {
			t.Fatal("a reader got in beside a writer")
		}
		want(t, last.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, behind, 5*time.Second))
		want(t, late.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, append(readers, w, last, late)...)
	})
}

// fields reads the reply of LOCK.INFO as a map. Nil is read as "".
func fields(t testing.TB, reply string) map[string]string {
	t.Helper()
	words := strings.Split(reply, "\r\n")
	if words[0] != "*22" {
		t.Fatalf("got %q, want a map", reply)
	}
	var values []string
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "$-1":
			values = append(values, "")
		case words[i][0] == ':':
			values = append(values, words[i][1:])
		default:
			i++
			values = append(values, words[i])
		}
	}
	out := make(map[string]string)
	for i := 0; i+1 < len(values); i += 2 {
		out[values[i]] = values[i+1]
	}
	return out
}

func TestR18WaitingWriterIsNotOvertaken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, w, b, c, d := connect(t, s), connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		a.token(key, "READ", "OWNER", "a")
		writes := w.await(s, 1, key, "WRITE", "OWNER", "w", "BLOCK", "4000")
		second := b.await(s, 2, key, "READ", "OWNER", "b", "BLOCK", "0")
		third := c.await(s, 3, key, "READ", "BLOCK", "0")
		a.token(key, "READ", "OWNER", "a", "BLOCK", "0")  // a holder may acquire again
		want(t, d.do("LOCK.ACQUIRE", key, "READ"), "$-1") // nobody else overtakes the writer (R21)
		want(t, receive(t, writes, 5*time.Second), "$-1") // the writer gives up
		tokenOf(t, woken(t, second))
		tokenOf(t, woken(t, third))
		for _, r := range []*conn{a, b, c} {
			want(t, r.do("LOCK.RELEASE", key, "ALL"), ":1")
		}
		wantNothing(t, rdb, key, a, b, c, d, w)
	})
}

func TestR18ModesDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b, c, d := connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		a.token(key)
		reads := b.await(s, 1, key, "READ", "BLOCK", "0")
		plain := c.await(s, 2, key, "BLOCK", "0")
		writes := d.await(s, 3, key, "WRITE", "BLOCK", "0")
		conns := map[<-chan string]*conn{reads: b, plain: c, writes: d}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		for len(conns) > 0 { // the other mode is not woken by a release and must retry
			var reply string
			var in *conn
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
			case <-time.After(soon):
				t.Fatalf("%d wait on", len(conns))
			}
			tokenOf(t, reply)
			want(t, in.do("LOCK.RELEASE", key), ":1")
		}
		wantNothing(t, rdb, key, a, b, c, d)
	})
}

func TestReadWriteWakesAndIsWokenByRedisson(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}, slowRetries), newKey(), context.Background()
		a, b, j := connect(t, s), connect(t, s), newJavaRW(t, rdb, key, "1")

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
				if m := receive(t, sub.Channel(), 3*time.Second); m.Payload != payload {
					t.Errorf("java hears %q, want %q", m.Payload, payload)
				}
			}
		}
		a.token(key, "READ")
		b.token(key, "READ")
		want(t, a.do("LOCK.RELEASE", key), ":1") // no waiter can get in after this release
		want(t, b.do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("0")
		a.token(key, "WRITE", "OWNER", "me")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("1")
		a.token(key, "WRITE", "OWNER", "me")
		a.token(key, "READ", "OWNER", "me")
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		waitUntilSubscribed("1")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		waitUntilSubscribed("0")

		// what Leash receives from Java
		for _, row := range []struct {
			option  string
			take    func(time.Duration) bool
			release func() any
		}{{"WRITE", j.read, j.unread}, {"READ", j.write, j.unwrite}, {"WRITE", j.write, j.unwrite}} {
			j.in(row.take(30 * time.Second))
			reply := a.await(s, 1, key, row.option, "BLOCK", "0")
			eventually(t, 5*time.Second, "we listen", func() bool {
				return listeners(t, rdb, script.RWChannel(key)) == 2
			})
			<-time.After(50 * time.Millisecond) // the attempt that follows the subscription has ended
			row.release()
			tokenOf(t, woken(t, reply))
			want(t, a.do("LOCK.RELEASE", key), ":1")
			<-plain.Channel()
		}
	})
}

// TestDeadReaders: A reader whose lease has expired blocks nobody any more. Its end does not affect
// other holders.
func TestDeadReaders(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}, slowRetries), newKey()
		a, b, c, j := connect(t, s), connect(t, s), connect(t, other), newJavaRW(t, rdb, key, "1")
		j.in(j.read(4 * time.Second))                          // these end with their leases
		a.token(key, "READ", "OWNER", "dead", "LEASE", "4000") //
		b.token(key, "READ", "OWNER", "alive")
		writes := c.await(other, 1, key, "WRITE", "BLOCK", "0")
		eventually(t, 2*time.Second, "they are over", func() bool {
			return readTimeout(rdb, key, "dead", 1) < 0 && readTimeout(rdb, key, j.owner, 1) < 0
		})
		if got := inRedis(t, rdb, key); got["dead"] != "1" || got[j.owner] != "1" || got["alive"] != "1" {
			t.Errorf("got %v", got)
		}
		info := fields(t, a.do("LOCK.INFO", key))
		if info["owner"] != "alive" || info["holds"] != "1" {
			t.Errorf("got %v", info)
		}
		eventually(t, 2*time.Second, "the lease is dropped", func() bool { return a.carrier.Holds() == 0 })
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "dead"), "-"+refusal.NotHeld)
		b.token(key, "READ", "OWNER", "dead") // the same owner may acquire again, beside a hold of its connection
		want(t, count(rdb, key, "dead"), "1")
		want(t, b.do("LOCK.RELEASE", key), ":1")
		if len(writes) != 0 {
			t.Fatal("a writer got in beside a reader")
		}
		want(t, b.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, woken(t, writes)) // the expired readers do not block the writer
		want(t, c.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b, c)

		// no holder is left to release, so the lock ends with the last lease, whatever its TTL
		began := time.Now()
		j.in(j.read(300 * time.Millisecond))
		rdb.PExpire(context.Background(), key, time.Minute)
		c.token(key, "WRITE", "BLOCK", "0")
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("the writer got in after %v", took)
		}
		want(t, c.do("LOCK.RELEASE", key), ":1")

		// a WRITE lease expires while its owner still reads, so other readers may enter
		d := connect(t, leash(t, rdb, Config{})) // nobody wakes d, so it must retry
		began = time.Now()
		a.token(key, "WRITE", "OWNER", "me", "LEASE", "6000")
		a.token(key, "READ", "OWNER", "me")
		d.token(key, "READ", "BLOCK", "0")
		if took := time.Since(began); took < 6*time.Second || took > soon {
			t.Errorf("the reader got in after %v", took)
		}
		want(t, inRedis(t, rdb, key)["mode"], "read")
		want(t, d.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.RELEASE", key, "READ"), ":1")
		eventually(t, 2*time.Second, "the lease is dropped", func() bool { return a.carrier.Holds() == 0 })
		wantNothing(t, rdb, key, a, b, c, d)
	})
}

func TestR21ReadersAndWritersHandOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		for _, row := range [][2]string{{"WRITE", "WRITE"}, {"WRITE", "READ"}, {"READ", "WRITE"}} {
			key := newKey()
			subscribeFirst(t, s, script.RWChannel(key), key)
			a, b, c, j := connect(t, s), connect(t, s), connect(t, s), newJavaRW(t, rdb, key, "1")
			old := a.token(key, row[0], "OWNER", "a")
			if row[0] == "READ" { // a reader whose lease has expired
				j.in(j.read(50 * time.Millisecond))
			}
			<-time.After(60 * time.Millisecond)
			first := b.await(s, 1, key, row[1], "OWNER", "b", "BLOCK", "0")
			second := c.await(s, 2, key, "READ", "BLOCK", "0")
			before := s.Stats().Handovers
			want(t, a.do("LOCK.RELEASE", key), ":1")
			if token := tokenOf(t, receive(t, first, 3*time.Second)); token <= old {
				t.Errorf("got token %d after %d", token, old)
			}
			if n := s.Stats().Handovers - before; n != 1 {
				t.Errorf("%v: got %d hand-overs, want one", row, n)
			}
			got := inRedis(t, rdb, key)
			field := map[string]string{"WRITE": "b:write", "READ": "b"}[row[1]]
			if got["mode"] != strings.ToLower(row[1]) || got[field] != "1" ||
				got["a"]+got["a:write"]+got[j.owner] != "" {
				t.Errorf("%v: got %v", row, got)
			}
			if left := readTimeout(rdb, key, "a", 1); left > 0 {
				t.Errorf("%v: a timeout key is left for %v", row, left)
			}
			if row[1] == "WRITE" {
				j.out(j.read(time.Second))
				want(t, b.do("LOCK.RELEASE", key), ":1")
			}
			tokenOf(t, receive(t, second, 3*time.Second))
			if row[1] == "READ" {
				want(t, b.do("LOCK.RELEASE", key), ":1")
			}
			want(t, c.do("LOCK.RELEASE", key), ":1")
			wantNothing(t, rdb, key, a, b, c)
		}

		// no hand-over while others read, here or elsewhere, or when the owner still reads
		key := newKey()
		subscribeFirst(t, s, script.RWChannel(key), key)
		a, b, c, j := connect(t, s), connect(t, s), connect(t, s), newJavaRW(t, rdb, key, "1")
		a.token(key, "WRITE", "OWNER", "me")
		a.token(key, "READ", "OWNER", "me")
		first := b.await(s, 1, key, "WRITE", "BLOCK", "0")
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		a.token(key, "READ", "OWNER", "other")
		j.in(j.read(30 * time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		<-time.After(100 * time.Millisecond)
		if len(first) != 0 {
			t.Fatal("a writer got in beside a reader")
		}
		j.unread()
		tokenOf(t, receive(t, first, 3*time.Second))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b, c)
	})
}

// TestR21HandOverToAReaderThatAlreadyHolds: A reader has got the lock by its own attempt before the
// hand-over to it runs. The hand-over must not report success falsely.
func TestR21HandOverToAReaderThatAlreadyHolds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		token := a.token(key, "READ", "OWNER", "me", "LEASE", "600000")
		a.token(key, "READ", "OWNER", "me", "LEASE", "600000")
		waits := b.acquireOf(script.Read, key, "")
		got := b.send(waits)
		defer hold.New(&b.carrier.Carrier.Carrier, &hold.Grant{ // no client was told of this hold
			Key: key, Mode: script.Read, Owner: waits.Grant.Owner, Token: got.Token, TTL: time.Minute,
		}).Apply(hold.ClosedToRelease)
		h := &heldBy{t: t, rdb: rdb, mode: script.Read, key: key, token: token, carrier: a.carrier.Name}
		keys := script.Read.EndKeys(key, script.TokenKey(key))
		hand := func(number int64) []any {
			args := h.hand(token, h.carrier, number)
			args[5], args[6], args[7] = waits.Grant.Owner, b.carrier.Name, waits.Grant.Request
			return append(args, script.Read.Name)
		}
		first, second := a.carrier.Requests.Add(1), a.carrier.Requests.Add(1)
		h.call("[0]", script.Read.Handover, keys, hand(first)...)
		h.call("[0]", script.Read.Handover, keys, hand(first)...)
		h.call("[1]", script.Read.Handover, keys, hand(second)...)
		want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":0")
		reply, err := script.Read.Handover.Run(t.Context(), rdb.(transport.Processor), keys, words(hand(second)...))
		if err != nil || !strings.HasPrefix(fmt.Sprint(reply), fmt.Sprint("[1 ", got.Token, " ")) {
			t.Errorf("a repetition was answered %v, %v", reply, err)
		}
		want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(got.Token, 10)), ":1")
	})
}
