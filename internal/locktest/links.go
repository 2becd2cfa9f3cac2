package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
)

// NoDirectPath are links that send nothing, so scripts go through the client library.
type NoDirectPath struct{ transport.Links }

func (NoDirectPath) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, _, dst []byte) ([]byte, bool, error) {
	return dst, false, errors.New("no link")
}

func (NoDirectPath) Scripts(_ time.Time, _ int, _ slots.Slot, _ int, _, dst []byte) ([]byte, bool, error) {
	return dst, false, errors.New("no link")
}

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

// ScriptCounter counts the calls of a script. It delays them until gate is closed, if there is a
// gate.
type ScriptCounter struct {
	Script *transport.Script
	Calls  atomic.Int64
	Gate   chan struct{}
}

func (c *ScriptCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *ScriptCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if len(cmd.Args()) > 1 && cmd.Args()[1] == c.Script.SHA {
			c.Calls.Add(1)
			if c.Gate != nil {
				select {
				case <-c.Gate:
				case <-ctx.Done():
				}
			}
		}
		return next(ctx, cmd)
	}
}

func (c *ScriptCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// FlushScripts makes every master forget its scripts.
func FlushScripts(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if err := Each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
		t.Fatal(err)
	}
}
