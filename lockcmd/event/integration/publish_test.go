package event_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

func TestR20PublishesInTheWaysConfigured(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, row := range []struct {
			publish        string
			plain, sharded bool
		}{{lockcmd.PublishBoth, true, true}, {lockcmd.PublishPlain, true, false},
			{lockcmd.PublishSharded, false, true}} {
			s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{Publish: row.publish}), locktest.NewKey(),
				context.Background()
			plain, sharded := rdb.Subscribe(ctx, script.LockChannel(key)), rdb.SSubscribe(ctx, script.LockChannel(key))
			defer plain.Close()
			defer sharded.Close()
			for _, ps := range []*redis.PubSub{plain, sharded} {
				if _, err := ps.Receive(ctx); err != nil {
					t.Fatal(err)
				}
			}
			a := locktest.Connect(t, s)
			a.Token(key)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			for _, kind := range []struct {
				ps   *redis.PubSub
				want bool
				name string
			}{{plain, row.plain, "plain"}, {sharded, row.sharded, "sharded"}} {
				if !kind.want {
					continue
				}
				m := locktest.Receive(t, kind.ps.Channel(), 3*time.Second)
				if m.Payload != "0" {
					t.Errorf("%s: got %q on the %s channel", row.publish, m.Payload, kind.name)
				}
			}
			<-time.After(20 * time.Millisecond)
			for _, unwanted := range []bool{!row.plain && len(plain.Channel()) > 0,
				!row.sharded && len(sharded.Channel()) > 0} {
				if unwanted {
					t.Errorf("%s: published on the other kind of channel too", row.publish)
				}
			}
		}
	})
}
