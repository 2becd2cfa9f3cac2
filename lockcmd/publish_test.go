package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

func TestR20PublishesInTheWaysConfigured(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, row := range []struct {
			publish        string
			plain, sharded bool
		}{{PublishBoth, true, true}, {PublishPlain, true, false}, {PublishSharded, false, true}} {
			s, key, ctx := leash(t, rdb, Config{Publish: row.publish}), newKey(), context.Background()
			plain, sharded := rdb.Subscribe(ctx, script.LockChannel(key)), rdb.SSubscribe(ctx, script.LockChannel(key))
			defer plain.Close()
			defer sharded.Close()
			for _, ps := range []*redis.PubSub{plain, sharded} {
				if _, err := ps.Receive(ctx); err != nil {
					t.Fatal(err)
				}
			}
			a := connect(t, s)
			a.token(key)
			want(t, a.do("LOCK.RELEASE", key), ":1")
			for _, kind := range []struct {
				ps   *redis.PubSub
				want bool
				name string
			}{{plain, row.plain, "plain"}, {sharded, row.sharded, "sharded"}} {
				if !kind.want {
					continue
				}
				m := receive(t, kind.ps.Channel(), 3*time.Second)
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
