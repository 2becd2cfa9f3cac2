package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// TestR13ScriptsRefuseStaleRequests: A script gets a request about a hold that has been replaced,
// has another carrier, or has had a later request. It refuses the request and changes nothing.
func TestR13ScriptsRefuseStaleRequests(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, m := range script.Modes {
			c, key := connect(t, s), newKey()
			// no renewal changes a lease
			token := c.hold(key, m.Option, "OWNER", "me", "LEASE", "600000")
			c.hold(key, m.Option, "OWNER", "me", "LEASE", "600000")
			h := &heldBy{t: t, rdb: rdb, mode: m, key: key, token: token, carrier: c.carrier.Name,
				last: c.carrier.Requests.Load()}
			h.refuse()
			h.refuseToMove()
			h.refuseAcquires()
			h.refuseOneKey()
			// one count remains
			h.call("[0]", m.Handover, m.EndKeys(key, script.TokenKey(key)),
				append(h.hand(token, h.carrier, c.carrier.Requests.Add(1)), m.Name)...)
			want(t, c.do("LOCK.RELEASE", key), ":1")
		}
	})
}

// heldBy is a hold of the owner "me" with two counts.
type heldBy struct {
	t       *testing.T
	rdb     redis.UniversalClient
	mode    *script.Mode
	key     string
	token   int64
	carrier string
	last    int64 // the carrier's last request
}

// words are the arguments of a script.
func words(args ...any) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = fmt.Sprint(arg)
	}
	return list
}

// call runs a script and checks its reply.
func (h *heldBy) call(want string, sc *transport.Script, keys []string, args ...any) {
	h.t.Helper()
	reply, err := sc.Run(context.Background(), h.rdb.(transport.Processor), keys, words(args...))
	if got := fmt.Sprint(reply); err != nil || got != want {
		h.t.Errorf("%s: got %s, %v, want %s", h.mode.Name, got, err, want)
	}
}

// refused runs a script and checks its reply, and that nothing has changed in Redis.
func (h *heldBy) refused(want string, sc *transport.Script, keys []string, args ...any) {
	h.t.Helper()
	state := func() string {
		return fmt.Sprint(inRedis(h.t, h.rdb, h.key), inRedis(h.t, h.rdb, script.RecordsKey(h.key)))
	}
	before := state()
	if h.call(want, sc, keys, args...); state() != before {
		h.t.Errorf("%s: it was refused, and %s became %s", h.mode.Name, before, state())
	}
}

// hand returns the arguments of a hand-over, except for the last one.
func (h *heldBy) hand(token int64, carrier string, number int64) []any {
	return []any{"me", token, carrier, number, "", "you", "x:1.1", 1, 30000, "w", 0, "-", "client", "-", "",
		h.mode.Channel(h.key), "p"}
}

// refuse calls the scripts that end a hold, for others and too late.
func (h *heldBy) refuse() {
	m, key, channel := h.mode, h.key, h.mode.Channel(h.key)
	ends, hands, revokes := m.ReleaseKeys(key), m.EndKeys(key, script.TokenKey(key)),
		m.EndKeys(key, "{"+key+"}:t", "{"+key+"}:a")
	for _, other := range []struct {
		token   int64
		carrier string
	}{{h.token - 1, h.carrier}, {h.token, "x:1.1"}} {
		h.refused("-1", m.Release, ends, "me", other.token, other.carrier, h.last+9, "all", channel, "p")
		h.refused("[-1]", m.Handover, hands, append(h.hand(other.token, other.carrier, h.last+9), m.Name)...)
		h.refused("-1", m.Revoke, revokes, "me", other.token, other.carrier, "all", channel, "p", 1000, "", "", "")
		h.refused("[0]", m.Renew, m.Keys(key), 60000, "me", script.RecordPrefix(other.token, other.carrier))
	}
	h.refused("-2", m.Release, ends, "me", h.token, h.carrier, h.last-1, "all", channel, "p")
	h.refused("[-2]", m.Handover, hands, append(h.hand(h.token, h.carrier, h.last-1), m.Name)...)
	h.refused("-1", m.Undo, m.EndKeys(key), "me", "x:1.1", h.last, h.last+1, channel, "p", 0)
	for _, owner := range []string{"me", "you"} { // held through a Leash, and not held
		h.refused("0", m.BreakOther, m.EndKeys(key, "{"+key+"}:a"), owner, channel, "p", 1000)
	}
	if n := h.rdb.Exists(context.Background(), "{"+key+"}:t", "{"+key+"}:a").Val(); n != 0 {
		h.t.Errorf("%s: %d answers were left about what was not done", m.Name, n)
	}
}

// refuseToMove calls the scripts that change the carrier or the end of a hold.
func (h *heldBy) refuseToMove() {
	m, key := h.mode, h.key
	keys := m.Keys(key, "{"+key+"}:t", "{"+key+"}:n")
	for _, row := range [][]any{
		{h.token - 1, h.carrier, "", ""}, {h.token, "x:1.1", "", ""}, {h.token, h.carrier, h.last + 1, ""},
		{h.token, h.carrier, "", "=another"},
	} {
		h.refused("[-1]", m.Move, keys, append(append([]any{"me"}, row...), "y:1.1", 1, "client", event.Moved, 1000,
			"", "")...)
	}
	record := "L1 5 x:1.1 1 5 1 30000 l - - c"
	h.refused("-1", m.Extend, m.Keys(key, "{"+key+"}:t"), "me", record,
		"L1 5 x:1.1 1 5 1 90000 l extend=x:1 - c", 90000, "", "", 1000)
	if exists(h.t, h.rdb, "{"+key+"}:t") {
		h.t.Errorf("%s: a tombstone was left of what was not done", m.Name)
	}
}

// refuseAcquires calls the acquire script.
func (h *heldBy) refuseAcquires() {
	acquire := func(want string, m *script.Mode, key, owner, carrier string, number, tracked any) {
		h.t.Helper()
		keys, args := m.Keys(key, script.TokenKey(key)),
			[]any{owner, carrier, number, tracked, 30000, "w", 0, "-", "client", "-"}
		if m.Fair {
			keys, args = append(keys, m.Queue(key)...), append(args, "", m.Channel(key), "p")
		}
		h.refused(want, m.Acquire, keys, args...)
	}
	acquire("[4]", h.mode, h.key, "me", h.carrier, h.last-1, h.token)
	acquire(fmt.Sprintf("[2 %d %s -]", h.token, h.carrier), h.mode, h.key, "me", "x:1.1", 1, 0)
	acquire("[3]", h.mode, newKey(), "me", h.carrier, h.last+1, h.token)
	if h.mode.Helpers == nil {
		acquire("[5]", script.Write, h.key, "me", h.carrier, h.last+1, 0)
	} else {
		acquire("[5]", script.Plain, h.key, "me", h.carrier, h.last+1, 0)
		acquire("[5]", script.Fair, h.key, "me", h.carrier, h.last+1, 0)
	}
}

// refuseOneKey calls the scripts that change one key of a hold, for use during a slot migration.
func (h *heldBy) refuseOneKey() {
	m, key, channel := h.mode, h.key, h.mode.Channel(h.key)
	if m.ReleaseKey == nil {
		return
	}
	records := []string{script.RecordsKey(key)}
	h.refused("-1", m.ReleaseKey, records, "me", h.token-1, h.carrier, h.last+9, "all", channel, "p", 2, "records")
	h.refused("-2", m.ReleaseKey, records, "me", h.token, h.carrier, h.last-1, "all", channel, "p", 2, "records")
	h.refused("0", m.RenewKey, records, 90000, "me", script.RecordPrefix(h.token-1, h.carrier))
	h.refused("0", m.RenewKey, []string{key}, 90000, "you", "")
}

// TestR13PermitScriptsRefuseStaleRequests: Permit scripts refuse stale requests too.
func TestR13PermitScriptsRefuseStaleRequests(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, c := semaphore(t, s, 2), connect(t, s)
		p, tag := c.permit(key), "{"+key+"}"
		r, ok := script.ParseRecord(rdb.HGet(t.Context(), script.RecordsKey(key), p).Val())
		if !ok {
			t.Fatal("the permit has no record")
		}
		h := &heldBy{t: t, rdb: rdb, mode: script.Permit, key: key, token: r.Token, carrier: r.Carrier}
		keys := script.SemaphoreKeys(key)
		for token, carrier := range map[int64]string{r.Token - 1: r.Carrier, r.Token: "x:1.1"} {
			h.call("-1", script.PermitReleaseScript, keys, p, token, carrier, "", "", script.PermitChannel(key), "p")
			h.call(fmt.Sprintf("[-2 %d %s %d]", r.Token, r.Carrier, r.TTL), script.PermitRevokeScript,
				append(keys, tag+":t"), p, token, carrier, script.PermitChannel(key), "p", 1000, "", "")
			h.call("[-1]", script.PermitMoveScript, append(keys, tag+":t", tag+":n"), p, token, carrier, "", "",
				"y:1.1", 1, "client", event.Moved, 1000, "", "")
			h.call("[0]", script.PermitRenewScript, keys, 90000, p, script.RecordPrefix(token, carrier))
			h.call("0", script.Read.RenewKey, keys[2:], 90000, p, script.RecordPrefix(token, carrier))
		}
		h.call("0", script.ByName("permit_undo"), keys, r.Carrier, 1_000_000, script.PermitChannel(key), "p", 0, p)
		h.call("0", script.PermitRenewKeyScript, keys[1:2], 90000, permitNumber(1), "")
		other := newKey()
		h.call("[0 -1]", script.PermitAcquireScript, append(script.SemaphoreKeys(other), script.TurnsKey(other)),
			"x:1.1", 1, 30000, "w", "-", "client", "channel", "p", "", "x/250", "", "", "", permitNumber(2), 1)
		c.wantSemaphoreInfo(key, 2, 1, 1)
		if exists(t, rdb, tag+":t") {
			t.Error("a tombstone was left of what was not done")
		}
		want(t, c.do("SEM.RELEASE", key), ":1")
	})
}

// TestR25RenewalRefusedByRedisIsUnknown: Redis refuses a command of a renewal script. The script
// answers that it does not know whether the hold exists.
func TestR25RenewalRefusedByRedisIsUnknown(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, redistest.Start(t).Addr)
	s := leash(t, rdb, Config{})
	// a user without the right for this command and its equivalents
	without := func(denied string) redis.UniversalClient {
		args := []any{"ACL", "SETUSER", denied, "on", ">pw", "~*", "&*", "+@all", "-" + denied}
		if denied == "pexpire" {
			args = append(args, "-pexpireat")
		}
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		opt := *rdb.Options()
		opt.Username, opt.Password = denied, "pw"
		limited := redis.NewClient(&opt)
		t.Cleanup(func() { limited.Close() })
		return limited
	}
	for _, limited := range []redis.UniversalClient{without("hmget"), without("pexpire")} {
		for _, m := range script.Modes {
			c, key := connect(t, s), newKey()
			h := &heldBy{t: t, rdb: limited, mode: m, key: key}
			h.call("[-1]", m.Renew, m.Keys(key), 90000, "me",
				script.RecordPrefix(c.hold(key, m.Option, "OWNER", "me"), c.carrier.Name))
		}
	}
	for _, m := range []*script.Mode{script.Plain, script.Fair} { // the right for PEXPIRE alone is enough
		c, key := connect(t, s), newKey()
		h := &heldBy{t: t, rdb: without("pexpireat"), mode: m, key: key}
		token := c.hold(key, m.Option, "OWNER", "me")
		h.call("[1]", m.Renew, m.Keys(key), 90000, "me", script.RecordPrefix(token, c.carrier.Name))
		if left := rdb.PTTL(t.Context(), m.Keys(key)[0]).Val(); left < 80*time.Second {
			t.Errorf("%s: %v are left, want 90 s", m.Name, left)
		}
	}
	c, key := connect(t, s), semaphore(t, s, 1)
	p := c.permit(key)
	r, ok := script.ParseRecord(rdb.HGet(t.Context(), script.RecordsKey(key), p).Val())
	if !ok {
		t.Fatal("the permit has no record")
	}
	for _, limited := range []redis.UniversalClient{without("hget"), without("zadd")} {
		h := &heldBy{t: t, rdb: limited, mode: script.Permit}
		h.call("[-1]", script.PermitRenewScript, script.SemaphoreKeys(key), 90000, p,
			script.RecordPrefix(r.Token, r.Carrier))
	}
}

// TestR13CommandsWorkAfterScriptFlush: SCRIPT FLUSH runs before each command, for every mode of
// hold.
func TestR13CommandsWorkAfterScriptFlush(t *testing.T) {
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		flush := func() {
			t.Helper()
			if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
				t.Fatal(err)
			}
		}
		a, b := connect(t, s), connect(t, other)
		does := func(c *conn, reply string, args ...string) {
			t.Helper()
			flush()
			want(t, c.do(args...), reply)
		}
		for _, m := range script.Modes {
			key := newKey()
			flush()
			token := strconv.FormatInt(a.hold(key, m.Option, "OWNER", "me", "LEASE", "60000"), 10)
			does(a, ":"+token, append([]string{"LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", "60000"},
				strings.Fields(m.Option)...)...)
			does(a, ":90000", "LOCK.EXTEND", key, "90000")
			does(b, ":1", "LOCK.CHECK", key, "TOKEN", token)
			does(b, ":"+token, "LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token)
			does(a, ":0", "LOCK.RELEASE", key, "TOKEN", token)
			does(b, ":1", "LOCK.RELEASE", key)

			flush()
			c, w := connect(t, s), connect(t, other)
			c.hold(key, m.Option)
			flush()
			reply := w.start(append(append([]string{"LOCK.ACQUIRE", key}, exclusiveOptions(m)...), "BLOCK", "0")...)
			eventually(t, 5*time.Second, "it waits", func() bool { return w.waits.Load() == 1 })
			s.RenewAll(t.Context())
			does(b, ":1", "LOCK.BREAK", key)
			tokenOf(t, receive(t, reply, 5*time.Second))
			does(w, ":1", "LOCK.RELEASE", key)
		}
		keys, semaphore, counter, latch := newKeys(2), newKey(), newKey(), newKey()
		flush()
		tokensOf(t, a.do(several("LOCK.MACQUIRE", keys)...), 2)
		does(b, null, several("LOCK.MACQUIRE", keys)...)
		does(a, ":2", several("LOCK.MRELEASE", keys)...)
		does(a, ":1", "SEM.INIT", semaphore, "1")
		flush()
		p := a.permit(semaphore, "ID", "r")
		does(b, "$32\r\n"+p, "SEM.ACQUIRE", semaphore, "ID", "r") // moves the permit
		s.RenewAll(t.Context())
		does(b, "$-1", "SEM.ACQUIRE", semaphore)
		does(a, ":1", "SEM.RELEASE", semaphore, p)
		does(a, ":3", "SEM.RESIZE", semaphore, "3")
		does(a, ":2", "SEM.GIVE", counter, "2")
		does(a, ":1", "SEM.TAKE", counter)
		does(a, ":1", "LATCH.SET", latch, "1")
		does(a, ":0", "LATCH.DOWN", latch)
		does(a, ":1", "LATCH.AWAIT", latch)
		if len(b.losses) != 0 {
			t.Errorf("lost %s", <-b.losses)
		}
	})
}
