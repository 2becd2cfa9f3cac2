package script_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd/script"
)

// restore restores a hold of the lock on any master, after change.
func (s *stage) restore(m *script.Mode, change ...func(*script.RestoreArgs)) string {
	s.Helper()
	h := script.RestoredHold{
		Key: s.lock.Key, Owner: "me", Carrier: "u:1", Token: 7, Request: 3, Count: 2, Lasts: time.Minute,
		TTL: 30 * time.Second, Moves: 1, LastID: "id", Client: "c",
		Terms: script.Terms{Flags: script.Flags{StayOnClose: true}, MaxHold: time.Hour},
	}
	if m == script.Permit {
		h.Owner = strings.Repeat("0a", 16)
	}
	args := &script.RestoreArgs{
		Mode: m, GraceEnd: time.Now().Add(time.Hour).UnixMilli(), TokenTTL: time.Hour, Holds: []script.RestoredHold{h},
	}
	for _, f := range change {
		f(args)
	}
	results, err := s.Restore(args, s.until)
	again, againErr := s.Restore(args, s.until)
	if err != nil || againErr != nil || len(results) != 1 || len(again) != 1 {
		s.Fatalf("got %v, %v and again %v, %v", results, err, again, againErr)
	}
	said := ""
	for _, r := range [...]script.RestoreResult{results[0], again[0]} {
		said += [...]string{
			script.RestoreHeldByOther: "other", script.Restored: "restored", script.RestoreAlreadyThere: "there",
			script.RestoreMoved: "moved", script.RestoreOtherMaster: "master", script.RestoreTombstone: "tombstone",
			script.RestoreGraceOver: "over",
		}[r.Outcome] + " " + r.Record.Carrier + "; "
	}
	return said
}

// TestRepliesOfRestores: a restore returns each of its results on a real Redis.
func TestRepliesOfRestores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, m := range []*script.Mode{script.Plain, script.Fair, script.Read, script.Write, script.Permit} {
		t.Run(m.Name, func(t *testing.T) {
			c := newClient(t, server)
			c.Timeout, c.Publish = 10*time.Second, "ps"
			s := &stage{T: t, Client: c, rdb: server.Client(), lock: script.Lock{Key: "restore-" + m.Name},
				until: time.Now().Add(10 * time.Second)}
			got := func(want string, change func(*script.RestoreArgs)) {
				t.Helper()
				if got := s.restore(m, change); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			got("master ; master ; ", func(a *script.RestoreArgs) { a.Master = "another" })
			got("over ; over ; ", func(a *script.RestoreArgs) { a.GraceEnd = 1 })
			older := "restored ; there ; "
			if m == script.Permit {
				got("other ; other ; ", func(*script.RestoreArgs) {}) // there is no semaphore
				s.do("SET", s.lock.Key, 1)
				older = "other ; other ; "
			}
			got("restored ; there ; ", func(*script.RestoreArgs) {})
			got("there ; there ; ", func(a *script.RestoreArgs) { a.Holds[0].Request = 4 })
			got("moved u:1; moved u:1; ", func(a *script.RestoreArgs) { a.Holds[0].Carrier = "v:1" })
			got("other ; other ; ", func(a *script.RestoreArgs) { a.Holds[0].Token = 6 })
			got(older, func(a *script.RestoreArgs) { a.Holds[0].Token = 8 })
			ref := script.Ref{Lock: s.lock, Token: 9, Carrier: "u:1"}
			if _, err := s.WriteTombstone(ref, "released", time.Minute, "", s.until); err != nil {
				t.Fatal(err)
			}
			got("tombstone ; tombstone ; ", func(a *script.RestoreArgs) { a.Holds[0].Token = 9 })
		})
	}
}

// TestRestoredRecord: the record of a restored hold says all that its Leash knows of it.
func TestRestoredRecord(t *testing.T) {
	t.Parallel()
	s := &stage{T: t, Client: newClient(t, redistest.Start(t)), lock: script.Lock{Key: "k"},
		until: time.Now().Add(10 * time.Second)}
	s.Timeout = 10 * time.Second
	s.restore(script.Plain, func(a *script.RestoreArgs) { a.Holds[0].Token = 1_000_000 })
	h := s.inspected()
	want := script.Record{Token: 1_000_000, Carrier: "u:1", Request: "3", Since: 1000, TTL: 30000, Options: "we",
		Ext: "max=3600000,moves=1", ID: "=id", Client: "c"}
	if h.Record != want || h.Count != 2 {
		t.Errorf("got %d counts of %+v, want 2 of %+v", h.Count, h.Record, want)
	}
}
