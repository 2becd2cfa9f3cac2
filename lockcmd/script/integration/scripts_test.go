package script_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// TestR13ScriptsRefuseStaleRequests: A script gets a request about a hold that has been replaced,
// has another carrier, or has had a later request. It refuses the request and changes nothing.
func TestR13ScriptsRefuseStaleRequests(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, m := range script.Modes {
			c, key := locktest.Connect(t, s), locktest.NewKey()
			// no renewal changes a lease
			token := c.Hold(key, m.Option, "OWNER", "me", "LEASE", "600000")
			c.Hold(key, m.Option, "OWNER", "me", "LEASE", "600000")
			h := &locktest.HeldBy{T: t, Rdb: rdb, Mode: m, Key: key, Token: token, Carrier: c.Carrier.Name,
				Last: c.Carrier.Requests.Load()}
			h.Refuse()
			h.RefuseToMove()
			h.RefuseAcquires()
			h.RefuseOneKey()
			// one count remains
			h.Call("[0]", m.Handover, m.EndKeys(key, script.TokenKey(key)),
				append(h.Hand(token, h.Carrier, c.Carrier.Requests.Add(1)), m.Name)...)
			locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		}
	})
}

// TestR13PermitScriptsRefuseStaleRequests: Permit scripts refuse stale requests too.
func TestR13PermitScriptsRefuseStaleRequests(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, c := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		p, tag := c.Permit(key), "{"+key+"}"
		r, ok := script.ParseRecord(rdb.HGet(t.Context(), script.RecordsKey(key), p).Val())
		if !ok {
			t.Fatal("the permit has no record")
		}
		h := &locktest.HeldBy{T: t, Rdb: rdb, Mode: script.Permit, Key: key, Token: r.Token, Carrier: r.Carrier}
		keys := script.SemaphoreKeys(key)
		for token, carrier := range map[int64]string{r.Token - 1: r.Carrier, r.Token: "x:1.1"} {
			h.Call("-1", script.PermitReleaseScript, keys, p, token, carrier, "", "", script.PermitChannel(key), "p")
			h.Call(fmt.Sprintf("[-2 %d %s %d]", r.Token, r.Carrier, r.TTL), script.PermitRevokeScript,
				append(keys, tag+":t"), p, token, carrier, script.PermitChannel(key), "p", 1000, "", "")
			h.Call("[-1]", script.PermitMoveScript, append(keys, tag+":t", tag+":n"), p, token, carrier, "", "",
				"y:1.1", 1, "client", event.Moved, 1000, "", "")
			h.Call("[0]", script.PermitRenewScript, keys, 90000, p, script.RecordPrefix(token, carrier))
			h.Call("0", script.Read.RenewKey, keys[2:], 90000, p, script.RecordPrefix(token, carrier))
		}
		h.Call("0", script.ByName("permit_undo"), keys, r.Carrier, 1_000_000, script.PermitChannel(key), "p", 0, p)
		h.Call("0", script.PermitRenewKeyScript, keys[1:2], 90000, locktest.PermitNumber(1), "")
		other := locktest.NewKey()
		h.Call("[0 -1]", script.PermitAcquireScript, append(script.SemaphoreKeys(other), script.TurnsKey(other)),
			"x:1.1", 1, 30000, "w", "-", "client", "channel", "p", "", "x/250", "", "", "", locktest.PermitNumber(2), 1)
		c.WantSemaphoreInfo(key, 2, 1, 1)
		if locktest.Exists(t, rdb, tag+":t") {
			t.Error("a tombstone was left of what was not done")
		}
		locktest.Want(t, c.Do("SEM.RELEASE", key), ":1")
	})
}

// TestR25RenewalRefusedByRedisIsUnknown: Redis refuses a command of a renewal script. The script
// answers that it does not know whether the hold exists.
func TestR25RenewalRefusedByRedisIsUnknown(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.Start(t).Addr)
	s := locktest.Start(t, rdb, lockcmd.Config{})
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
			c, key := locktest.Connect(t, s), locktest.NewKey()
			owner, record := "me", script.RecordPrefix(c.Hold(key, m.Option, "OWNER", "me"), c.Carrier.Name)
			got, err := locktest.RunScript(t.Context(), limited, m.Renew, m.Keys(key), "90000", owner, record)
			if said := fmt.Sprintf("%v, %v", got, err); said != "[-1], <nil>" && !strings.HasPrefix(said, "<nil>, UNRENEWED ") {
				t.Errorf("%s: got %s", m.Name, said)
			}
		}
	}
	for _, m := range []*script.Mode{script.Plain, script.Fair} { // the right for PEXPIRE alone is enough
		c, key := locktest.Connect(t, s), locktest.NewKey()
		h := &locktest.HeldBy{T: t, Rdb: without("pexpireat"), Mode: m, Key: key}
		token := c.Hold(key, m.Option, "OWNER", "me")
		h.Call("[1]", m.Renew, m.Keys(key), 90000, "me", script.RecordPrefix(token, c.Carrier.Name))
		if left := rdb.PTTL(t.Context(), m.Keys(key)[0]).Val(); left < 80*time.Second {
			t.Errorf("%s: %v are left, want 90 s", m.Name, left)
		}
	}
	c, key := locktest.Connect(t, s), locktest.Semaphore(t, s, 1)
	p := c.Permit(key)
	r, ok := script.ParseRecord(rdb.HGet(t.Context(), script.RecordsKey(key), p).Val())
	if !ok {
		t.Fatal("the permit has no record")
	}
	for _, limited := range []redis.UniversalClient{without("hget"), without("zadd")} {
		h := &locktest.HeldBy{T: t, Rdb: limited, Mode: script.Permit}
		h.Call("[-1]", script.PermitRenewScript, script.SemaphoreKeys(key), 90000, p,
			script.RecordPrefix(r.Token, r.Carrier))
	}
}

// TestR13CommandsWorkAfterScriptFlush: SCRIPT FLUSH runs before each command, for every mode of
// hold.
func TestR13CommandsWorkAfterScriptFlush(t *testing.T) {
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		flush := func() {
			t.Helper()
			flush := func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }
			if err := locktest.Each(rdb, flush); err != nil {
				t.Fatal(err)
			}
		}
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		does := func(c *locktest.Client, reply string, args ...string) {
			t.Helper()
			flush()
			locktest.Want(t, c.Do(args...), reply)
		}
		for _, m := range script.Modes {
			key := locktest.NewKey()
			flush()
			token := strconv.FormatInt(a.Hold(key, m.Option, "OWNER", "me", "LEASE", "60000"), 10)
			does(a, ":"+token, append([]string{"LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", "60000"},
				strings.Fields(m.Option)...)...)
			does(a, ":90000", "LOCK.EXTEND", key, "90000")
			does(b, ":1", "LOCK.CHECK", key, "TOKEN", token)
			does(b, ":"+token, "LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token)
			does(a, ":0", "LOCK.RELEASE", key, "TOKEN", token)
			does(b, ":1", "LOCK.RELEASE", key)

			flush()
			c, w := locktest.Connect(t, s), locktest.Connect(t, other)
			c.Hold(key, m.Option)
			flush()
			reply := w.Start(append(append([]string{"LOCK.ACQUIRE", key}, locktest.ExclusiveOptions(m)...), "BLOCK",
				"0")...)
			locktest.Eventually(t, 5*time.Second, "it waits", func() bool { return w.Waits.Load() == 1 })
			s.RenewAll(t.Context())
			does(b, ":1", "LOCK.BREAK", key)
			locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
			does(w, ":1", "LOCK.RELEASE", key)
		}
		keys, semaphore, counter, latch := locktest.NewKeys(2), locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
		flush()
		locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys)...), 2)
		does(b, locktest.Null, locktest.Several("LOCK.MACQUIRE", keys)...)
		does(a, ":2", locktest.Several("LOCK.MRELEASE", keys)...)
		does(a, ":1", "SEM.INIT", semaphore, "1")
		flush()
		p := a.Permit(semaphore, "ID", "r")
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
		if len(b.Losses) != 0 {
			t.Errorf("lost %s", <-b.Losses)
		}
	})
}
