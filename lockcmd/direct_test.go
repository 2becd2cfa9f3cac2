package lockcmd

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

// noDirectPath are links that send nothing, so scripts go through the client library.
type noDirectPath struct{ transport.Links }

func (noDirectPath) Script(_ time.Time, _ *time.Time, _ int, _ slots.Slot, _, dst []byte) ([]byte, bool, error) {
	return dst, false, errors.New("no link")
}

func (noDirectPath) Scripts(_ time.Time, _ int, _ slots.Slot, _ int, _, dst []byte) ([]byte, bool, error) {
	return dst, false, errors.New("no link")
}

// linksWith are links with another Script or Scripts. A nil one is that of Links.
type linksWith struct {
	transport.Links
	script func(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command, dst []byte) ([]byte, bool,
		error)
	scripts func(until time.Time, db int, slot slots.Slot, n int, commands, dst []byte) ([]byte, bool, error)
}

func (l linksWith) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) ([]byte, bool, error) {
	if l.script == nil {
		return l.Links.Script(until, writeBy, db, slot, command, dst)
	}
	return l.script(until, writeBy, db, slot, command, dst)
}

func (l linksWith) Scripts(until time.Time, db int, slot slots.Slot, n int, commands,
	dst []byte) ([]byte, bool, error) {
	if l.scripts == nil {
		return l.Links.Scripts(until, db, slot, n, commands, dst)
	}
	return l.scripts(until, db, slot, n, commands, dst)
}

// TestDirectPath: Scripts use the direct path as soon as it exists. Redirects and missing scripts
// do no harm.
func TestDirectPath(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var wired atomic.Int64
		s := leash(t, rdb, Config{}, func(s *Service) {
			up := s.Redis.Links
			s.Redis.Links = linksWith{Links: up, script: func(until time.Time, writeBy *time.Time, db int,
				slot slots.Slot, command, dst []byte) ([]byte, bool, error) {
				reply, sent, err := up.Script(until, writeBy, db, slot, command, dst)
				if sent && err == nil {
					wired.Add(1)
				}
				return reply, sent, err
			}}
		})
		a, key := connect(t, s), newKey()
		for i := 0; wired.Load() < 10; i++ {
			if i == 10_000 {
				t.Fatalf("%d scripts of %d went by the wire", wired.Load(), 2*i)
			}
			a.token(key)
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
		flushScripts(t, rdb)
		a.token(key)
		want(t, a.do("LOCK.RELEASE", key), ":1")
	})
}

// each calls f for every master.
func each(rdb redis.UniversalClient, f func(*redis.Client) error) error {
	if c, ok := rdb.(*redis.ClusterClient); ok {
		return c.ForEachMaster(context.Background(), func(_ context.Context, c *redis.Client) error { return f(c) })
	}
	return f(rdb.(*redis.Client))
}
