package lockcmd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// listedKeys are the keys of a list.
func listedKeys(list HoldList) (keys []string) {
	for _, v := range list.Holds {
		keys = append(keys, v.Key)
	}
	return keys
}

// TestSearchHolds checks orders, pages and what the text is compared with.
func TestSearchHolds(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	c, other := connect(t, s), connect(t, s)
	prefix := newKey()
	var byAge, byKey []string
	for i := range 1200 { // more than two parts of the index
		key := fmt.Sprintf("%s:%04d", prefix, (i*701)%1200)
		c.token(key, "OWNER", fmt.Sprintf("owner-%d", i))
		byAge, byKey = append(byAge, key), append(byKey, key)
	}
	slices.Sort(byKey)
	newestFirst := slices.Clone(byAge)
	slices.Reverse(newestFirst)
	for name, x := range map[string]struct {
		search HoldSearch
		want   []string
	}{
		"first page by key":   {HoldSearch{By: ByKey, Count: 50}, byKey[:50]},
		"a later page by key": {HoldSearch{By: ByKey, First: 600, Count: 50}, byKey[600:650]},
		"the last page":       {HoldSearch{By: ByKey, First: 1190, Count: 50}, byKey[1190:]},
		"behind the end":      {HoldSearch{By: ByKey, First: 5000, Count: 50}, nil},
		"all":                 {HoldSearch{By: ByKey, Count: 1200}, byKey},
		"the same kind":       {HoldSearch{By: ByMode, First: 3, Count: 4}, byAge[3:7]},
		"the oldest first":    {HoldSearch{By: ByGrant, First: 2, Count: 50}, byAge[2:52]},
		"reversed":            {HoldSearch{By: ByMode, Reverse: true, Count: 10}, newestFirst[:10]},
	} {
		list := s.SearchHolds(x.search)
		if list.Found != 1200 || !slices.Equal(listedKeys(list), x.want) {
			t.Errorf("%s: found %d, got %q, want %q", name, list.Found, listedKeys(list), x.want)
		}
	}
	for text, n := range map[string]int{prefix + ":000": 10, "owner-77": 11, "127.0.0.1:5000": 1200, "no such": 0} {
		if list := s.SearchHolds(HoldSearch{Text: text, Count: 5}); list.Found != n || len(list.Holds) != min(n, 5) {
			t.Errorf("%q: found %d, want %d, and %d are listed", text, list.Found, n, len(list.Holds))
		}
	}
	ends := func(key string) bool { return strings.HasSuffix(key, "7") }
	if list := s.SearchHolds(HoldSearch{Match: ends, Text: "owner-77", Count: 50}); list.Found != 2 {
		t.Errorf("found %d that match, want 2", list.Found)
	}
	waiting := other.start("LOCK.ACQUIRE", byAge[500], "BLOCK", "0")
	eventually(t, soon, "it waits", func() bool { return s.Stats().Waiters == 1 })
	list := s.SearchHolds(HoldSearch{By: ByWaiters, Reverse: true, Count: 1})
	if got := list.Holds[0]; got.Key != byAge[500] || got.Waiters != 1 || got.Owner != "owner-500" || got.Left <= 0 ||
		got.Left > got.TTL || got.ClientID != clientOf(c) {
		t.Errorf("the lock with a waiter: got %+v", got)
	}
	want(t, c.do("LOCK.RELEASE", byAge[500]), ":1")
	<-waiting
	if list := s.SearchHolds(HoldSearch{Text: "owner-500"}); list.Found != 0 {
		t.Errorf("a hold that has ended: found %d", list.Found)
	}
}

func clientOf(c *conn) int64 { return c.carrier.ClientID() }

// TestSearchHoldsBesideChanges searches while holds come and go.
func TestSearchHoldsBesideChanges(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	stays, key := connect(t, s), newKey()
	for i := range 600 {
		stays.token(fmt.Sprintf("%s:stays:%d", key, i))
	}
	var changes sync.WaitGroup
	for i := range 4 {
		c := connect(t, s)
		changes.Go(func() {
			for n := range 200 {
				name := fmt.Sprintf("%s:%d:%d", key, i, n)
				c.do("LOCK.ACQUIRE", name)
				c.do("LOCK.RELEASE", name)
			}
		})
	}
	done := make(chan struct{})
	go func() { changes.Wait(); close(done) }()
	for by := ByAge; ; by = (by + 1) % (ByMode + 1) {
		if list := s.SearchHolds(HoldSearch{Text: ":stays:", By: by, Count: 50}); list.Found != 600 || len(list.Holds) != 50 {
			t.Errorf("found %d, listed %d", list.Found, len(list.Holds))
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestViewLock shows locks in each mode, with their holders and waiters.
func TestViewLock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, elsewhere := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, key := connect(t, s), connect(t, s), newKey()
		view := func(key string) LockView {
			t.Helper()
			v, err := s.ViewLock(0, key, s.deadline())
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if v := view(key); v.State != freeState || len(v.Holds) != 0 {
			t.Errorf("a free lock: got %+v", v)
		}
		token := a.token(key, "OWNER", "me")
		waiting := b.start("LOCK.ACQUIRE", key, "BLOCK", "0", "OWNER", "you")
		eventually(t, soon, "it waits", func() bool { return view(key).Waiters == 1 })
		v := view(key)
		if v.State != heldState || v.Mode != "plain" || len(v.Holds) != 1 || v.Holds[0].Token != token ||
			v.Holds[0].Owner != "me" || v.Holds[0].ClientID != clientOf(a) {
			t.Errorf("a held lock: got %+v", v)
		}
		if w := v.Queue[0]; w.Owner != "you" || w.ClientID != clientOf(b) || w.Mode != "plain" {
			t.Errorf("its waiter: got %+v", w)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		<-waiting

		far := connect(t, elsewhere)
		token = far.token(key+":far", "READ")
		v = view(key + ":far")
		if len(v.Holds) != 1 || v.Holds[0].Token != token || v.Holds[0].ClientID != 0 ||
			v.Holds[0].Leash != elsewhere.holds.Leash {
			t.Errorf("a lock of another Leash: got %+v", v)
		}
		far.do("SEM.INIT", key+":sem", "2")
		if reply := a.do("SEM.ACQUIRE", key+":sem"); reply[0] != '$' {
			t.Fatalf("got %s", reply)
		}
		if v = view(key + ":sem"); v.State != heldState || v.Mode != "permit" || len(v.Holds) != 1 {
			t.Errorf("a semaphore: got %+v", v)
		}
		if _, err := s.ViewLock(0, "{"+key+"}:leash", s.deadline()); err == nil {
			t.Error("the name of a helper key is no lock")
		}
	})
}

// changeLog is an Observer that keeps everything.
type changeLog struct {
	all bool
	mu  sync.Mutex
	got []HoldChange
}

func (r *changeLog) Watches() bool { return r.all }

func (r *changeLog) Observe(c HoldChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, c)
}

// kinds are the changes of a lock, in order.
func (r *changeLog) kinds(key string) (kinds []ChangeKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.got {
		if c.Key == key {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds
}

// TestObserver checks what an observer is told.
func TestObserver(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	all, few := &changeLog{all: true}, &changeLog{}
	s.AddObserver(all)
	a, b, key := connect(t, s), connect(t, s), newKey()
	told := func(o *changeLog, key string, want ...ChangeKind) {
		t.Helper()
		eventually(t, soon, "the observer is told", func() bool { return slices.Equal(o.kinds(key), want) })
	}
	a.token(key)
	a.do("LOCK.RELEASE", key)
	told(all, key, Granted, Released)
	token := a.token(key+":moved", "OWNER", "me")
	want(t, b.do("LOCK.ATTACH", key+":moved", "OWNER", "me", "TOKEN", fmt.Sprint(token)), fmt.Sprintf(":%d", token))
	eventually(t, soon, "the move is told", func() bool { return slices.Contains(all.kinds(key+":moved"), Moved) })
	a.token(key + ":broken")
	want(t, b.do("LOCK.BREAK", key+":broken"), ":1")
	told(all, key+":broken", Granted, Lost, Released)
	a.token(key + ":left")
	a.carrier.End(Expire)
	told(all, key+":left", Granted, Expiring)

	s.AddObserver(few)
	b.token(key + ":few")
	want(t, connect(t, s).do("LOCK.BREAK", key+":few"), ":1")
	told(few, key+":few", Lost)
	if c := few.got[0]; c.Reason != "broken" || c.Client.Name != testClientName || c.Owner == "" || c.Token == 0 {
		t.Errorf("the loss: got %+v", c)
	}
}

// TestBreakWhatWasConfirmed checks that Break spares a holder that its caller has not seen.
func TestBreakWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		first, second := a.token(key, "READ"), b.token(key, "READ")
		for _, seen := range [][]int64{nil, {first}, {0}, {second, 1}} {
			if how, err := s.Break(0, key, seen); err != ErrOtherHolder {
				t.Errorf("%v: got %v, %v", seen, how, err)
			}
		}
		want(t, a.do("LOCK.CHECK", key, "TOKEN", fmt.Sprint(first)), ":1")
		if how, err := s.Break(0, key, []int64{second, first}); how != WasTold || err != nil {
			t.Errorf("got %v, %v", how, err)
		}
		if how, err := s.Break(0, key, []int64{first}); how != WasFree || err != nil {
			t.Errorf("a free lock: got %v, %v", how, err)
		}
	})
}
