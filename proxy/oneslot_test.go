package proxy_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
	"leash/proxy/command"
)

// generate makes arguments from a command's key specs, with two keys where several are allowed.
// Other arguments are filler. It returns the number of keys.
func generate(c *command.Command, key func(i int) string, filler string) (args []string, keys int) {
	args = strings.Split(strings.ToUpper(c.Name), "|")
	set := func(i int, value string) {
		for len(args) <= i {
			args = append(args, filler)
		}
		args[i] = value
	}
	next := func(i int) {
		set(i, key(keys))
		keys++
	}
	for i := len(args); i < max(c.Arity, -c.Arity); i++ {
		set(i, filler)
	}
	for _, k := range c.Keys {
		begin := k.Index
		if k.Keyword != "" {
			begin = len(args) + 1
			set(begin-1, k.Keyword)
		}
		switch {
		case k.KeyNum:
			set(begin+k.CountAt, "2")
			next(begin + k.FirstKey)
			next(begin + k.FirstKey + k.Step)
		case k.Last == 0:
			next(begin)
		default:
			next(begin)
			next(begin + k.Step)
			others := max(k.Step-1, -k.Last-1) // values, a time-out
			if k.Keyword == "STREAMS" {
				others = keys // an ID for each
			}
			for i := range others {
				set(begin+k.Step+1+i, filler)
			}
		}
	}
	return args, keys
}

// plainCluster starts a cluster of one node and connects to it directly. It owns all slots, so its
// errors about slots are those of a whole cluster.
func plainCluster(t *testing.T, config ...string) *redistest.Client {
	t.Helper()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1, Args: config})
	return proxytest.Dial(t, c.Addrs()[0])
}

// TestEveryCommandOnManyKeys checks that each command with several keys works when they are in one
// slot, and otherwise gives Redis's error. In front of a single Redis it always works.
func TestEveryCommandOnManyKeys(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	reply, err := single.Client().Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	told, err := command.Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	cluster := proxytest.Start(t, redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs())
	for _, up := range []struct {
		name         string
		redis, leash *redistest.Client
	}{
		{"cluster", plainCluster(t), cluster.Dial(t)},
		{"standalone", proxytest.Dial(t, redistest.Start(t).Addr), proxytest.Start(t, []string{single.Addr}).Dial(t)},
	} {
		tested, crossed := 0, 0
		for _, c := range told {
			known := cluster.Commands().Lookup(bytes.Split([]byte(c.Name), []byte("|")))
			// its reply depends on the time
			if known == nil || len(c.Keys) == 0 || known.Class == command.Refused ||
				known.Class == command.Subscriber || c.Name == "object|idletime" {
				continue
			}
			tested++
			filler := "1"
			if c.Blocking {
				filler = "0.01"
			}
			for name, key := range map[string]func(int) string{
				"one slot":  func(i int) string { return fmt.Sprintf("{t}%d", i) },
				"two slots": func(i int) string { return fmt.Sprintf("k%d", i) },
			} {
				args, keys := generate(c, key, filler)
				if _, split := call.SplittingOf(c.Name); split && name == "two slots" {
					continue
				}
				for _, client := range []*redistest.Client{up.redis, up.leash} {
					// expiring keys end at their own times
					client.Want(t, "+OK\r\n", "FLUSHALL")
				}
				wanted := up.redis.Reply(t, args...)
				if got := up.leash.Reply(t, args...); got != wanted {
					t.Errorf("%s, %s: %q: got %.200q, redis says %.200q", up.name, name, args, got, wanted)
				}
				if strings.HasPrefix(wanted, "-CROSSSLOT ") {
					crossed++
				} else if up.name == "cluster" && name == "two slots" && keys > 1 && !strings.HasPrefix(wanted,
					"-ERR syntax") {
					t.Errorf("%q has %d keys, and redis says %.200q", args, keys, wanted)
				}
			}
		}
		t.Logf("%s: %d commands with keys, %d over slots", up.name, tested, crossed)
		if tested < 150 || up.name == "cluster" && crossed < 40 {
			t.Errorf("%s: only %d commands, %d over slots", up.name, tested, crossed)
		}
	}
}

// manyKeyForms are whole commands with the keys in angle brackets.
var manyKeyForms = []string{
	"RPUSH <l1> 3 1 2", "RPUSH <l2> 2 3", "SADD <s1> 1 2 3", "SADD <s2> 2 3 4", "ZADD <z1> 1 a 2 b",
	"ZADD <z2> 3 b 4 c",
	"SET <a1> ohmytext", "SET <a2> mynewtext", "PFADD <p1> a b", "PFADD <p2> b c", "SETBIT <b1> 7 1", "SETBIT <b2> 3 1",
	"GEOADD <g1> 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", "XADD <x1> 1-1 f v", "XADD <x2> 1-1 f v",
	"HSET <h1> f v",

	"SORT <l1>", "SORT <l1> STORE <l3>", "SORT <l1> BY nosort GET # STORE <l4>", "SORT <l1> BY w_* GET o_*",
	"SORT <l1> GET o_*->f",
	"SORT <l1> BY {t}w_* GET {t}o_*", "SORT_RO <l1> DESC LIMIT 0 2", "SORT <s1> ALPHA STORE <l5> STORE <l6>",
	"SORT <l1> STORE",
	"GEORADIUS <g1> 15 37 200 km STORE <g2>", "GEORADIUS <g1> 15 37 200 km STOREDIST <g3>",
	"GEORADIUS_RO <g1> 15 37 200 km",
	"GEORADIUSBYMEMBER <g1> Palermo 200 km STORE <g4>", "GEOSEARCHSTORE <g5> <g1> FROMLONLAT 15 37 BYRADIUS 200 km ASC",
	"XREAD COUNT 2 STREAMS <x1> <x2> 0 0", "XREAD STREAMS <x1> <x2> 0", "XREAD BLOCK 1 STREAMS <x1> <x3> 0 0",
	"XGROUP CREATE <x1> g 0", "XGROUP CREATE <x2> g 0", "XGROUP CREATE <x4> g $ MKSTREAM",
	"XGROUP CREATECONSUMER <x1> g c", "XGROUP NOPE <x1>",
	"XREADGROUP GROUP g c STREAMS <x1> <x2> > >", "XREADGROUP GROUP g c COUNT 1 STREAMS <x1> <x2> 0 0",
	"XINFO STREAM <x2>", "XINFO GROUPS <x4>",
	"XINFO STREAM <none>", "XGROUP SETID <x1> g 0", "XGROUP DELCONSUMER <x1> g c", "XGROUP DESTROY <x1> g",
	"XINFO CONSUMERS <x4> g",
	"OBJECT ENCODING <l1>", "OBJECT REFCOUNT <none>", "OBJECT FREQ <l1>", "MEMORY USAGE <a1>",
	"MEMORY USAGE <l1> SAMPLES 0", "MEMORY USAGE <none>",
	"EVAL return{KEYS[1],KEYS[2]} 2 <a1> <a2>",
	"EVAL return{redis.call('GET',KEYS[1]),redis.call('GET',KEYS[2])} 2 <a1> <a2>",
	"EVAL_RO return#KEYS 3 <a1> <a2> <a3>", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 2 <a1> <a2>",
	"FCALL nope 2 <a1> <a2>", "EVAL return#KEYS 3 <a1> <a2>",
	"LCS <a1> <a2>", "LCS <a1> <a2> IDX MINMATCHLEN 4 WITHMATCHLEN", "LCS <a1> <a2> LEN",
	"ZDIFF 2 <z1> <z2> WITHSCORES",
	"ZDIFFSTORE <z3> 2 <z1> <z2>", "ZUNIONSTORE <z4> 2 <z1> <z2> WEIGHTS 1 2",
	"ZINTERSTORE <z5> 2 <z1> <z2> AGGREGATE MAX", "ZINTER 2 <z1> <z2>", "ZUNION 2 <z1> <s1>",
	"ZINTERCARD 2 <z1> <z2> LIMIT 1", "SINTERCARD 2 <s1> <s2>", "ZRANGESTORE <z6> <z1> 0 -1",
	"ZMPOP 2 <none> <z6> MIN", "LMPOP 2 <none> <l3> LEFT COUNT 2",
	"BLMPOP 0.01 2 <none> <l3> RIGHT", "BZMPOP 0.01 2 <none> <z5> MAX", "BLPOP <none> <l3> 0.01",
	"BRPOP <none> <l9> 0.01", "BZPOPMIN <none> <z4> 0.01",
	"BLMOVE <l1> <l7> LEFT RIGHT 0.01", "BRPOPLPUSH <l1> <l7> 0.01", "LMOVE <l1> <l7> LEFT LEFT", "RPOPLPUSH <l7> <l8>",
	"BITOP OR <b3> <b1> <b2>", "BITOP NOT <b4> <b1>", "BITOP NOT <b4> <b1> <b2>", "PFCOUNT <p1> <p2>",
	"PFMERGE <p3> <p1> <p2>", "PFMERGE <p4>",
	"SMOVE <s1> <s2> 1", "SUNIONSTORE <s3> <s1> <s2>", "SDIFFSTORE <s4> <s1> <s2>", "SINTERSTORE <s5> <s1> <s2>",
	"COPY <a1> <a4>", "COPY <a1> <a4> REPLACE", "RENAME <a4> <a5>", "RENAMENX <a5> <a2>", "RENAME <none> <a1>",
	"MSETNX <m1> 1 <m2> 2", "MSETNX <m2> 1 <m3> 2", "MSETNX <m1>", "SPUBLISH <a1> m", "DUMP <none>", "WAIT 0 0",
	"MGET <a1> <none> <a2>", "MSET <m4> 1 <m5> 2", "EXISTS <a1> <a2> <a1> <none>", "TOUCH <a1> <a2>",
	"DEL <a1> <none> <l1>", "UNLINK <s1> <s2>",
}

// TestManyKeyForms checks that whole commands have the effects and replies of a single Redis, with
// the keys in one slot and with each key in its own slot.
func TestManyKeyForms(t *testing.T) {
	t.Parallel()
	cluster := proxytest.Start(t, redistest.StartCluster(t, redistest.ClusterOptions{}).Addrs())
	standalone := proxytest.Start(t, []string{redistest.Start(t).Addr})
	for _, hello := range []string{"2", "3"} {
		for _, up := range []struct {
			name         string
			redis, leash *redistest.Client
			keys         string
		}{
			{"cluster", plainCluster(t), cluster.Dial(t), "one slot"},
			{"cluster", plainCluster(t), cluster.Dial(t), "many slots"},
			{"standalone", proxytest.Dial(t, redistest.Start(t).Addr), standalone.Dial(t), "many slots"},
		} {
			for _, c := range []*redistest.Client{up.redis, up.leash} {
				c.Reply(t, "HELLO", hello)
				c.Want(t, "+OK\r\n", "FLUSHALL")
			}
			open := map[string]string{"one slot": "{t}", "many slots": ""}[up.keys]
			for _, form := range manyKeyForms {
				args := strings.Fields(strings.NewReplacer("<", open, ">",
					"").Replace(strings.ReplaceAll(form, " > >", " ≥ ≥")))
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "≥", ">")
				}
				wanted := up.redis.Reply(t, args...)
				_, split := call.SplittingOf(strings.ToLower(args[0]))
				if split && strings.HasPrefix(wanted, "-CROSSSLOT ") {
					continue // Leash can do what a cluster can not
				}
				if got := up.leash.Reply(t, args...); got != wanted {
					t.Errorf("%s, RESP%s, %s: %q: got %.300q, redis says %.300q", up.name, hello, up.keys, args,
						got, wanted)
				}
			}
		}
	}
}
