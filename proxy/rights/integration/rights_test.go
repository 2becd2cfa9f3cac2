package rights_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/command"
	"leash/proxy/usage"
)

// leastArgs returns the fewest arguments that a command takes, with key.
func leastArgs(o *usage.Command, key string) []string {
	args := []string{o.Name}
	for _, a := range o.Arguments {
		switch {
		case a.Optional:
		case a.Kind == "key":
			args = append(args, key)
		case a.Kind == "integer":
			args = append(args, tokenOf(a, "1")...)
		default:
			args = append(args, tokenOf(a, "x")...)
		}
	}
	return args
}

func tokenOf(a usage.Argument, value string) []string {
	switch {
	case a.Kind == "pure-token":
		return []string{a.Token}
	case a.Token != "":
		return []string{a.Token, value}
	}
	return []string{value}
}

// contents returns everything in a Redis, as DUMP has it, without the TTLs, which renewal changes.
func contents(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, key := range keys {
		if all[key], err = rdb.Dump(ctx, key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestR8NoLockCommandWithoutTheKeysRights checks that a user who may not write a key cannot change
// its lock with any command. A user who may not read it learns nothing about the lock.
func TestR8NoLockCommandWithoutTheKeysRights(t *testing.T) {
	server := proxytest.Secured(t)
	admin := proxytest.Dial(t, server.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reads", "~*", "-@all", "+@read", "+@connection")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "looker", "on", ">looks", "%R~*", "+@all")
	l := proxytest.Start(t, []string{server.Addr}, proxytest.WithPassword)
	owner, bob, reader, looker := l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t)
	owner.Want(t, "+OK\r\n", "AUTH", "secret")
	bob.Want(t, "+OK\r\n", "AUTH", "bob", "builder")
	reader.Want(t, "+OK\r\n", "AUTH", "reader", "reads")
	looker.Want(t, "+OK\r\n", "AUTH", "looker", "looks")
	number := proxytest.Token(t, owner, "alice:1")
	before := contents(t, server.Client())

	for i := range command.AllOwn {
		o := &command.AllOwn[i]
		if o.Keys == usage.NoKey || len(o.Use.Right) == 0 {
			continue
		}
		denied := "-" + o.Denial(true) + "\r\n"
		for _, key := range []string{"alice:1", "alice:2"} {
			args := leastArgs(o, key)
			bob.Want(t, denied, args...)
			if o.Keys == usage.NumKeys { // one of several is enough
				bob.Want(t, denied, append([]string{o.Name, "2", "bob:1", key}, args[3:]...)...)
			}
			if o.Use.Reads {
				for _, c := range []*redistest.Client{reader, looker} {
					if got := c.Reply(t, args...); strings.HasPrefix(got, "-NOPERM") {
						t.Errorf("%q by a user with read rights: got %q", args, got)
					}
				}
				continue
			}
			reader.Want(t, "-"+o.Denial(false)+"\r\n", args...)
			looker.Want(t, denied, args...)
		}
		if o.Arity < 0 {
			bob.Want(t, denied, append(leastArgs(o, "alice:1"), "TOKEN", number)...)
		}
	}
	if after := contents(t, server.Client()); len(after) != len(before) || after["alice:1"] != before["alice:1"] {
		t.Errorf("something has changed: before %q, after %q", before, after)
	}
	owner.Want(t, ":1\r\n", "LOCK.RELEASE", "alice:1")
}

// TestR8BreakingCanBeDenied checks that a user without the right to DEL can use all lock commands
// except LOCK.BREAK of another owner's lock.
func TestR8BreakingCanBeDenied(t *testing.T) {
	server := proxytest.Secured(t)
	admin := proxytest.Dial(t, server.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "ann", "on", ">pw", "~*", "+@all", "-del")
	l := proxytest.Start(t, []string{server.Addr}, proxytest.WithPassword)
	ann := l.Dial(t)
	ann.Want(t, "+OK\r\n", "AUTH", "ann", "pw")
	for i := range command.AllOwn {
		o := &command.AllOwn[i]
		args := leastArgs(o, "k")
		if slices.Equal(o.Use.Right, []string{"DEL"}) {
			ann.Want(t, "-"+o.Denial(false)+"\r\n", args...)
		} else if got := ann.Reply(t, args...); strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("%q: got %q", args, got)
		}
	}
}

// TestLockCommandsNeedAuthentication checks that lock commands without authentication get NOAUTH
// where Redis gives it (R8).
func TestLockCommandsNeedAuthentication(t *testing.T) {
	server := proxytest.Secured(t)
	l := proxytest.Start(t, []string{server.Addr}, proxytest.WithPassword)
	client := l.Dial(t)
	for i := range command.AllOwn {
		client.Want(t, "-NOAUTH Authentication required.\r\n", leastArgs(&command.AllOwn[i], "k")...)
	}
	if n := len(contents(t, server.Client())); n != 0 {
		t.Errorf("%d keys were made", n)
	}
}
