package release

import (
	"testing"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestR14TombstonesOfReleasesInMigration: A release that ends a hold leaves a tombstone. One that
// ends none leaves none, and does not change that of others.
func TestR14TombstonesOfReleasesInMigration(t *testing.T) {
	t.Parallel()
	c, rdb := clusterOf(t)
	r, carrier := releaserOf(t, rdb, "one"), "two:1.1"
	until := r.Redis.Deadline()
	tokens := make(map[string]int64)
	for i, key := range []string{"{tag}once", "{tag}twice", "{tag}twice", "{tag}alone", "{tag}alone", "{tag}broken"} {
		got, _, err := r.Redis.Acquire(&script.Acquisition{}, &script.AcquireArgs{
			Lock: script.Lock{Key: key}, Mode: script.Plain, Token: tokens[key], Grant: script.GrantTerms{
				Owner: "me", Carrier: carrier, Request: int64(i + 1), TTL: time.Minute,
				Options: script.Terms{}.OptionLetters(), Ext: script.Terms{}.Ext(),
			},
		}, until)
		if tokens[key] = got.Token; err != nil || got.Outcome != script.AcquireGranted {
			t.Fatalf("%s: %v, %v", key, got, err)
		}
	}
	slot := int(slots.Of([]byte("{tag}")))
	m, err := c.BeginMove(slot, c.MasterOf((slot+slots.Count/2)%slots.Count))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.MoveKey("{tag}once", "{tag}twice", "{tag}alone", "{tag}broken"); err != nil {
		t.Fatal(err)
	}

	release := func(key string) *remote {
		t.Helper()
		rr := &remote{Releaser: r, lock: script.Lock{Key: key}, id: r.Holds.NewID()}
		if _, found, err := rr.read(hold.Selector{Owner: "me"}, false, until); !found || err != nil {
			t.Fatalf("%s: found %v, %v", key, found, err)
		}
		return rr
	}
	send := func(rr *remote, code int64, says string) {
		t.Helper()
		if got, err := rr.send(until); got != code || err != nil {
			t.Errorf("the release of %s was answered %d, %v, want %d", rr.lock.Key, got, err, code)
		}
		tombstone := script.TombstoneKey(rr.lock.Key, tokens[rr.lock.Key], carrier)
		if got := rdb.Get(t.Context(), tombstone).Val(); got != says {
			t.Errorf("then the tombstone says %q, want %q", got, says)
		}
	}

	first, second := release("{tag}once"), release("{tag}once")
	send(first, script.HoldEnded, event.Released)
	send(second, script.NoSuchHold, event.Released)

	first, second = release("{tag}twice"), release("{tag}twice")
	send(first, script.CountsRemain, "")
	send(second, script.HoldEnded, event.Released)

	send(release("{tag}alone"), script.CountsRemain, "")

	broken := release("{tag}broken")
	rdb.Set(t.Context(), script.TombstoneKey("{tag}broken", tokens["{tag}broken"], carrier), event.Broken, time.Minute)
	send(broken, script.NoSuchHold, event.Broken)

	if _, err := m.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
}
