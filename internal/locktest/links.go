package locktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd"
	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
)

// LinksWith are links with another Script or Scripts. A nil one is that of Links.
type LinksWith struct {
	transport.Links
	OnScript func(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command, dst []byte) ([]byte, bool,
		error)
	OnScripts func(until time.Time, db int, slot slots.Slot, n int, commands, dst []byte) ([]byte, bool, error)
}

func (l LinksWith) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) ([]byte, bool, error) {
	if l.OnScript == nil {
		return l.Links.Script(until, writeBy, db, slot, command, dst)
	}
	return l.OnScript(until, writeBy, db, slot, command, dst)
}

func (l LinksWith) Scripts(until time.Time, db int, slot slots.Slot, n int, commands,
	dst []byte) ([]byte, bool, error) {
	if l.OnScripts == nil {
		return l.Links.Scripts(until, db, slot, n, commands, dst)
	}
	return l.OnScripts(until, db, slot, n, commands, dst)
}

// Each calls f for every master.
func Each(rdb redis.UniversalClient, f func(*redis.Client) error) error {
	if c, ok := rdb.(*redis.ClusterClient); ok {
		return c.ForEachMaster(context.Background(), func(_ context.Context, c *redis.Client) error { return f(c) })
	}
	return f(rdb.(*redis.Client))
}

// ScriptCounter counts the calls of a script, or of all scripts if it names none. It delays them
// until Gate is closed, if there is a gate.
type ScriptCounter struct {
	transport.Links
	Counted *transport.Script
	Calls   atomic.Int64
	Gate    chan struct{}
}

// Watch makes a Service that does not run yet use the counter.
func (c *ScriptCounter) Watch(s *lockcmd.Service) { c.Links, s.Redis.Links = s.Redis.Links, c }

// Script implements transport.Links.
func (c *ScriptCounter) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) ([]byte, bool, error) {
	args := faultproxy.Args(command)
	if c.Counted == nil || string(args[1]) == c.Counted.SHA {
		c.Calls.Add(1)
		if c.Gate != nil {
			select {
			case <-c.Gate:
			case <-time.After(time.Until(until)):
			}
		}
	}
	return c.Links.Script(until, writeBy, db, slot, command, dst)
}

// FlushScripts makes every master forget its scripts.
func FlushScripts(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if err := Each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
		t.Fatal(err)
	}
}
