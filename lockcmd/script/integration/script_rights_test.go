package script_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// rightsScene runs one script that the lock commands run only after a fault, on keys as Leash
// leaves them.
type rightsScene struct {
	file, what string
	prepare    func(p *rightsStage) rightsCall
}

// rightsStage is where a scene prepares its keys. All keys have the name key in them.
type rightsStage struct {
	*testing.T
	s   *lockcmd.Service
	rdb *redis.Client
	key string
}

// rightsCall is the call of a script. A renewal fails for each hold by itself: it answers -1 at the
// index of that hold. names are in the keys of the holds.
type rightsCall struct {
	script *transport.Script
	keys   []string
	args   []any
	names  []string
}

const (
	rightsTTL = "7200000"        // longer than the holds last
	farAway   = "32503680000000" // ms since 1970
)

// hold takes a lock in a mode some times. It returns the connection and the record of the hold.
func (p *rightsStage) hold(m *script.Mode, key, owner string, count int, options ...string) (*locktest.Client,
	script.Record) {
	p.Helper()
	c := locktest.Connect(p, p.s)
	for range count {
		c.Hold(key, m.Option, append([]string{"OWNER", owner}, options...)...)
	}
	return c, p.record(m, key, owner)
}

// record reads the record of a hold.
func (p *rightsStage) record(m *script.Mode, key, owner string) script.Record {
	p.Helper()
	r, ok := script.ParseRecord(p.recordText(m, key, owner))
	if !ok {
		p.Fatalf("%s has no record of %s", key, owner)
	}
	return r
}

func (p *rightsStage) recordText(m *script.Mode, key, owner string) string {
	if m.Helpers == nil {
		return p.rdb.HGet(p.Context(), key, "leash").Val()
	}
	return p.rdb.HGet(p.Context(), script.RecordsKey(key), locktest.FieldOf(m, owner)).Val()
}

// do runs a command on Redis.
func (p *rightsStage) do(args ...any) {
	p.Helper()
	if err := p.rdb.Do(p.Context(), args...).Err(); err != nil {
		p.Fatalf("%v: %v", args, err)
	}
}

// renewal is the renewal of holds of these locks.
func (p *rightsStage) renewal(m *script.Mode, locks ...string) rightsCall {
	call := rightsCall{script: m.Renew, args: []any{rightsTTL}, names: locks}
	for _, key := range locks {
		r := p.record(m, key, "me")
		call.keys = append(call.keys, m.Keys(key)...)
		call.args = append(call.args, "me", script.RecordPrefix(r.Token, r.Carrier))
	}
	return call
}

// undo is the undo of the request with that number.
func (p *rightsStage) undo(m *script.Mode, c *locktest.Client, number int64) rightsCall {
	return rightsCall{script: m.Undo, keys: m.EndKeys(p.key),
		args: []any{"me", c.Carrier.Name, number, number + 1, m.Channel(p.key), "p", 0}}
}

// restore adds a hold to the call of a restore. text is its record.
func (call rightsCall) restore(m *script.Mode, key, owner, text string) rightsCall {
	r, _ := script.ParseRecord(text)
	if call.script == nil {
		call = rightsCall{script: m.Restore, args: []any{"", farAway, 60000}}
	}
	call.keys = append(call.keys, m.Keys(key)...)
	if m != script.Permit {
		call.keys = append(call.keys, script.TokenKey(key))
	}
	call.keys = append(call.keys, script.TombstoneKey(key, r.Token, r.Carrier))
	call.args = append(call.args, owner, 1, rightsTTL, text)
	return call
}

// laterRequest is the record of the same hold after another request.
func laterRequest(text string) string {
	words := strings.Fields(text)
	n, _ := strconv.Atoi(words[3])
	words[3] = strconv.Itoa(n + 1)
	return strings.Join(words, " ")
}

// lose makes the master lack a hold of me, as after a failover. It also has an older counter.
func (p *rightsStage) lose(m *script.Mode, key string) (text string) {
	text = p.recordText(m, key, "me")
	p.do("DEL", key, script.RecordsKey(key), script.SuffixName(key, "me:rwlock_timeout:1"))
	p.do("SET", script.TokenKey(key), 1, "PX", 600000)
	return text
}

// permit takes a permit, and returns it and its record.
func (p *rightsStage) permit() (number, text string) {
	p.Helper()
	c := locktest.Connect(p, p.s)
	locktest.Want(p, c.Do("SEM.INIT", p.key, "2"), ":1")
	number = c.Permit(p.key)
	return number, p.rdb.HGet(p.Context(), script.RecordsKey(p.key), number).Val()
}

func permitBytes(number string) string {
	var b strings.Builder
	for i := 0; i < len(number); i += 2 {
		n, _ := strconv.ParseUint(number[i:i+2], 16, 8)
		b.WriteByte(byte(n))
	}
	return b.String()
}

func (p *rightsStage) permitPrefix(text string) string {
	r, ok := script.ParseRecord(text)
	if !ok {
		p.Fatalf("a permit has no record: %q", text)
	}
	return script.RecordPrefix(r.Token, r.Carrier)
}

func rightsScenes() (all []rightsScene) {
	add := func(file, what string, prepare func(p *rightsStage) rightsCall) {
		all = append(all, rightsScene{file + ".lua", what, prepare})
	}
	add("renew", "one", func(p *rightsStage) rightsCall {
		p.hold(script.Plain, p.key, "me", 1)
		return p.renewal(script.Plain, p.key)
	})
	add("renew", "the second lasts for ever", func(p *rightsStage) rightsCall {
		one, two := p.key+"1", p.key+"2"
		p.hold(script.Plain, one, "me", 1)
		p.hold(script.Plain, two, "me", 1)
		p.do("PERSIST", two)
		return p.renewal(script.Plain, one, two)
	})
	add("probe", "a promoted master", func(p *rightsStage) rightsCall {
		p.do("SET", p.key, "another 5")
		return rightsCall{script: script.ByName("probe"), keys: []string{p.key}, args: []any{"", 0, 60000}}
	})
	add("restore", "it is lost", func(p *rightsStage) rightsCall {
		p.hold(script.Plain, p.key, "me", 1)
		return rightsCall{}.restore(script.Plain, p.key, "me", p.lose(script.Plain, p.key))
	})
	add("restore", "it is older, and lasts for ever", func(p *rightsStage) rightsCall {
		p.hold(script.Plain, p.key, "me", 1)
		p.do("PERSIST", p.key)
		return rightsCall{}.restore(script.Plain, p.key, "me", laterRequest(p.recordText(script.Plain, p.key, "me")))
	})
	add("restore", "one is older, another one is lost", func(p *rightsStage) rightsCall {
		one, two := p.key+"1", p.key+"2"
		p.hold(script.Plain, one, "me", 1)
		p.hold(script.Plain, two, "me", 1)
		call := rightsCall{}.restore(script.Plain, one, "me", laterRequest(p.recordText(script.Plain, one, "me")))
		return call.restore(script.Plain, two, "me", p.lose(script.Plain, two))
	})
	add("undo", "the hold", func(p *rightsStage) rightsCall {
		c, r := p.hold(script.Plain, p.key, "me", 1)
		return p.undo(script.Plain, c, requestNumber(r))
	})
	add("undo", "a count", func(p *rightsStage) rightsCall {
		c, r := p.hold(script.Plain, p.key, "me", 2)
		return p.undo(script.Plain, c, requestNumber(r))
	})
	add("undo", "a late copy", func(p *rightsStage) rightsCall {
		c, r := p.hold(script.Plain, p.key, "me", 1)
		return p.undo(script.Plain, c, requestNumber(r)+5)
	})
	add("touch", "it lasts for ever", func(p *rightsStage) rightsCall {
		p.hold(script.Plain, p.key, "me", 1)
		p.do("PERSIST", p.key)
		return rightsCall{script: script.TouchScript, keys: []string{p.key}}
	})
	for _, m := range []*script.Mode{script.Read, script.Write} {
		all = append(all, sharedRightsScenes(m)...)
	}
	return append(all, permitRightsScenes()...)
}

// sharedRightsScenes are the scenes of READ or WRITE holds.
func sharedRightsScenes(m *script.Mode) (all []rightsScene) {
	add := func(file, what string, prepare func(p *rightsStage) rightsCall) {
		all = append(all, rightsScene{file + ".lua", m.Name + ", " + what, prepare})
	}
	add("rw_renew", "two", func(p *rightsStage) rightsCall {
		one, two := p.key+"1", p.key+"2"
		p.hold(m, one, "me", 1)
		p.hold(m, two, "me", 2)
		return p.renewal(m, one, two)
	})
	add("rw_renew", "the owner reads and writes", func(p *rightsStage) rightsCall {
		p.readAndWrite()
		return p.renewal(m, p.key)
	})
	add("rw_restore", "it is lost", func(p *rightsStage) rightsCall {
		p.hold(m, p.key, "me", 1)
		return rightsCall{}.restore(m, p.key, "me", p.lose(m, p.key))
	})
	add("rw_restore", "it is older", func(p *rightsStage) rightsCall {
		p.hold(m, p.key, "me", 1)
		return rightsCall{}.restore(m, p.key, "me", laterRequest(p.recordText(m, p.key, "me")))
	})
	add("rw_restore", "the owner's other hold is there", func(p *rightsStage) rightsCall {
		p.readAndWrite()
		text := p.recordText(m, p.key, "me")
		p.do("HDEL", p.key, locktest.FieldOf(m, "me"))
		p.do("HDEL", script.RecordsKey(p.key), locktest.FieldOf(m, "me"))
		return rightsCall{}.restore(m, p.key, "me", text)
	})
	add("rw_restore", "an earlier reader is there", func(p *rightsStage) rightsCall {
		p.hold(script.Read, p.key, "you", 1)
		p.hold(script.Read, p.key, "me", 1)
		text := p.recordText(script.Read, p.key, "me")
		p.do("HDEL", p.key, "me")
		p.do("HDEL", script.RecordsKey(p.key), "me")
		return rightsCall{}.restore(m, p.key, "me", text)
	})
	add("undo", "the hold", func(p *rightsStage) rightsCall {
		c, r := p.hold(m, p.key, "me", 1)
		return p.undo(m, c, requestNumber(r))
	})
	add("undo", "one of two holds", func(p *rightsStage) rightsCall {
		c := p.readAndWrite()
		return p.undo(m, c, requestNumber(p.record(m, p.key, "me")))
	})
	add("undo", "a count", func(p *rightsStage) rightsCall {
		c, r := p.hold(m, p.key, "me", 2)
		return p.undo(m, c, requestNumber(r))
	})
	add("undo", "a late copy", func(p *rightsStage) rightsCall {
		c, r := p.hold(m, p.key, "me", 1)
		return p.undo(m, c, requestNumber(r)+5)
	})
	for count, which := range map[int]string{1: "the hold", 2: "a count"} {
		for _, part := range []string{"records", "lock"} {
			add("rw_release_key", which+" in the "+part, func(p *rightsStage) rightsCall {
				c, r := p.hold(m, p.key, "me", count)
				return p.releaseKey(m, c, r, part, count)
			})
		}
	}
	add("rw_release_key", "one of two holds", func(p *rightsStage) rightsCall {
		c := p.readAndWrite()
		return p.releaseKey(m, c, p.record(m, p.key, "me"), "lock", 1)
	})
	add("rw_renew_key", "the lock", func(p *rightsStage) rightsCall {
		p.hold(m, p.key, "me", 1)
		return rightsCall{script: m.RenewKey, keys: []string{p.key}, args: []any{rightsTTL, "me", ""}}
	})
	add("rw_renew_key", "the records", func(p *rightsStage) rightsCall {
		p.readAndWrite()
		r := p.record(m, p.key, "me")
		return rightsCall{script: m.RenewKey, keys: []string{script.RecordsKey(p.key)},
			args: []any{rightsTTL, "me", script.RecordPrefix(r.Token, r.Carrier)}}
	})
	for _, before := range []string{"", "1"} {
		add("rw_renew_key", "a timeout key that was "+strconv.Quote(before), func(p *rightsStage) rightsCall {
			name := script.SuffixName(p.key, "me:rwlock_timeout:1")
			if before != "" {
				p.do("SET", name, before, "PX", 60000)
			}
			return rightsCall{script: m.RenewKey, keys: []string{name}, args: []any{rightsTTL, "", ""}}
		})
	}
	if m == script.Read {
		add("rw_renew", "the owner's write lease is over", func(p *rightsStage) rightsCall {
			c, _ := p.hold(script.Write, p.key, "me", 1, "LEASE", "600000")
			c.Hold(p.key, "READ", "OWNER", "me")
			words := strings.Fields(p.recordText(script.Write, p.key, "me"))
			words[6] = "0" // the TTL
			p.do("HSET", script.RecordsKey(p.key), "me:write", strings.Join(words, " "))
			return p.renewal(script.Read, p.key)
		})
	}
	return all
}

// readAndWrite makes the owner me write and read. The record of the write hold says until when.
func (p *rightsStage) readAndWrite() *locktest.Client {
	p.Helper()
	c, _ := p.hold(script.Write, p.key, "me", 1)
	c.Hold(p.key, "READ", "OWNER", "me")
	return c
}

func (p *rightsStage) releaseKey(m *script.Mode, c *locktest.Client, r script.Record, part string,
	count int) rightsCall {
	key := p.key
	if part == "records" {
		key = script.RecordsKey(p.key)
	}
	return rightsCall{script: m.ReleaseKey, keys: []string{key}, args: []any{
		"me", r.Token, r.Carrier, c.Carrier.Requests.Load() + 1, "-", m.Channel(p.key), "p", count, part,
	}}
}

func permitRightsScenes() (all []rightsScene) {
	add := func(file, what string, prepare func(p *rightsStage) rightsCall) {
		all = append(all, rightsScene{file + ".lua", what, prepare})
	}
	add("permit_renew", "one", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		return rightsCall{script: script.PermitRenewScript, keys: script.SemaphoreKeys(p.key),
			args: []any{rightsTTL, number, p.permitPrefix(text)}, names: []string{p.key}}
	})
	add("permit_renew_key", "the zset", func(p *rightsStage) rightsCall {
		number, _ := p.permit()
		return rightsCall{script: script.PermitRenewKeyScript, keys: script.SemaphoreKeys(p.key)[1:2],
			args: []any{rightsTTL, number, ""}}
	})
	add("rw_renew_key", "the records of a permit", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		return rightsCall{script: script.Read.RenewKey, keys: script.SemaphoreKeys(p.key)[2:],
			args: []any{rightsTTL, number, p.permitPrefix(text)}}
	})
	add("permit_restore", "it is lost", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		p.do("ZREM", script.PermitsKey(p.key), permitBytes(number))
		p.do("HDEL", script.RecordsKey(p.key), number)
		p.do("INCRBY", p.key, 1)
		return rightsCall{}.restore(script.Permit, p.key, number, text)
	})
	add("permit_restore", "it lasts less", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		return rightsCall{}.restore(script.Permit, p.key, number, text)
	})
	add("permit_revoke", "the permit of another Leash", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		r, _ := script.ParseRecord(text)
		return rightsCall{script: script.PermitRevokeScript,
			keys: append(script.SemaphoreKeys(p.key), script.TombstoneKey(p.key, r.Token, r.Carrier)),
			args: []any{number, r.Token, r.Carrier, script.PermitChannel(p.key), "p", 60000, "leash:other", "event"}}
	})
	add("permit_undo", "one", func(p *rightsStage) rightsCall {
		number, text := p.permit()
		r, _ := script.ParseRecord(text)
		return rightsCall{script: script.ByName("permit_undo"), keys: script.SemaphoreKeys(p.key),
			args: []any{r.Carrier, requestNumber(r), script.PermitChannel(p.key), "p", 0, number}}
	})
	return all
}

// requestNumber is the number of the last request in a record.
func requestNumber(r script.Record) int64 {
	n, _ := strconv.ParseInt(r.Request, 10, 64)
	return n
}

// scriptsWithoutScene are the scripts that the scenes of the proxy package do not run.
func scriptsWithoutScene(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadFile("testdata/scripts_without_scene.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ignoredRights are commands whose failure a script bears.
var ignoredRights = map[string][]string{
	"renew.lua":      {"PEXPIREAT"}, // then PEXPIRE does it
	"rw_restore.lua": {"HGET"},      // it answers that nothing was done
}

// TestAScriptRunDirectlyWithoutARightLeavesNothing: the user lacks each of the commands of a
// script, in turn. A script that fails then has changed nothing. The proxy package has the same
// test for the other scripts.
func TestAScriptRunDirectlyWithoutARightLeavesNothing(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.Start(t).Addr)
	promote(t, rdb)
	s := locktest.NewLeash(t, rdb, lockcmd.Config{WatchdogTimeout: time.Hour})
	var mu sync.Mutex // guards users and failed
	users, failed := make(map[string]*redis.Client), make(map[string]bool)
	fails := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		failed[what] = true
	}
	without := func(command string) *redis.Client {
		mu.Lock()
		defer mu.Unlock()
		if users[command] != nil {
			return users[command]
		}
		if err := rdb.Do(t.Context(), "ACL", "SETUSER", "no"+command, "on", ">pw", "~*", "&*", "+@all",
			"-"+command).Err(); err != nil {
			t.Error(err)
		}
		opt := *rdb.Options()
		opt.Username, opt.Password = "no"+command, "pw"
		users[command] = redis.NewClient(&opt)
		t.Cleanup(func() { users[command].Close() })
		return users[command]
	}
	scenes := make(map[string]func(*testing.T))
	for i, scene := range rightsScenes() {
		scenes[fmt.Sprint(i, scene.file)] = func(t *testing.T) {
			stage := func() *rightsStage { return &rightsStage{t, s, rdb, locktest.NewKey() + "x"} }
			p := stage()
			call := scene.prepare(p)
			was := locktest.StoredKeys(t, rdb, p.key)
			reply, err := locktest.RunScript(t.Context(), rdb, call.script, call.keys,
				transport.Words(call.args...)...)
			if err != nil ||
				scene.file != "touch.lua" && maps.EqualFunc(was, locktest.StoredKeys(t, rdb, p.key),
					locktest.StoredKey.Same) {
				t.Errorf("%s, %s, with all rights: it was answered %v, %v, or changed nothing", scene.file,
					scene.what, reply, err)
			}
			fails(scene.file)
			for _, command := range call.script.Commands() {
				p := stage()
				call := scene.prepare(p)
				was := locktest.StoredKeys(t, rdb, p.key)
				reply, err := locktest.RunScript(context.Background(), without(strings.ToLower(command)),
					call.script, call.keys, transport.Words(call.args...)...)
				names := []string{p.key}
				if err == nil {
					names = nil
					for i, name := range call.names {
						if reply.([]any)[i] == int64(-1) {
							names = append(names, name)
						}
					}
				}
				if len(names) > 0 {
					fails(scene.file + command)
				}
				is := locktest.StoredKeys(t, rdb, p.key)
				for _, name := range names {
					of := func(all map[string]locktest.StoredKey) map[string]locktest.StoredKey {
						all = maps.Clone(all)
						maps.DeleteFunc(all, func(key string,
							_ locktest.StoredKey) bool {
							return !strings.Contains(key, name)
						})
						return all
					}
					if !maps.EqualFunc(of(was), of(is), locktest.StoredKey.Same) {
						t.Errorf("%s, %s, without %s: it was answered %v, %v and left\n%v\nof\n%v", scene.file,
							scene.what, command, reply, err, of(is), of(was))
					}
				}
			}
		}
	}
	locktest.RunParallel(t, scenes)
	unfailed := make(map[string][]string)
	for _, file := range scriptsWithoutScene(t) {
		if !failed[file] {
			t.Errorf("no scene runs %s", file)
			continue
		}
		text, err := script.Files.ReadFile("lua/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range transport.CallPattern.FindAllStringSubmatch(string(text), -1) {
			if !failed[file+m[1]] && !slices.Contains(ignoredRights[file], m[1]) {
				unfailed[file] = append(unfailed[file], m[1])
			}
		}
	}
	for file, commands := range unfailed {
		t.Errorf("%s: no scene fails without %v", file, commands)
	}
}

// promote makes the server a master that was a replica.
func promote(t *testing.T, rdb *redis.Client) {
	t.Helper()
	host, port, _ := strings.Cut(redistest.Start(t).Addr, ":")
	if err := rdb.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, 20*time.Second, "it is a replica", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	if err := rdb.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
}
