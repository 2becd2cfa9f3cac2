package view_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/view"
)

// listedKeys are the keys of a list.
func listedKeys(list view.List) (keys []string) {
	for _, v := range list.Holds {
		keys = append(keys, v.Key)
	}
	return keys
}

// TestSearchHolds checks orders, pages and what the text is compared with.
func TestSearchHolds(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	c, other := locktest.Connect(t, s), locktest.Connect(t, s)
	prefix := locktest.NewKey()
	var byAge, byKey []string
	for i := range 1200 { // more than two parts of the index
		key := fmt.Sprintf("%s:%04d", prefix, (i*701)%1200)
		c.Token(key, "OWNER", fmt.Sprintf("owner-%d", i))
		byAge, byKey = append(byAge, key), append(byKey, key)
	}
	slices.Sort(byKey)
	newestFirst := slices.Clone(byAge)
	slices.Reverse(newestFirst)
	for name, x := range map[string]struct {
		search view.Search
		want   []string
	}{
		"first page by key":   {view.Search{By: view.ByKey, Count: 50}, byKey[:50]},
		"a later page by key": {view.Search{By: view.ByKey, First: 600, Count: 50}, byKey[600:650]},
		"the last page":       {view.Search{By: view.ByKey, First: 1190, Count: 50}, byKey[1190:]},
		"behind the end":      {view.Search{By: view.ByKey, First: 5000, Count: 50}, nil},
		"all":                 {view.Search{By: view.ByKey, Count: 1200}, byKey},
		"the same kind":       {view.Search{By: view.ByMode, First: 3, Count: 4}, byAge[3:7]},
		"the oldest first":    {view.Search{By: view.ByGrant, First: 2, Count: 50}, byAge[2:52]},
		"reversed":            {view.Search{By: view.ByMode, Reverse: true, Count: 10}, newestFirst[:10]},
	} {
		list := s.SearchHolds(x.search)
		if list.Found != 1200 || !slices.Equal(listedKeys(list), x.want) {
			t.Errorf("%s: found %d, got %q, want %q", name, list.Found, listedKeys(list), x.want)
		}
	}
	for text, n := range map[string]int{prefix + ":000": 10, "owner-77": 11, "127.0.0.1:5000": 1200, "no such": 0} {
		if list := s.SearchHolds(view.Search{Text: text, Count: 5}); list.Found != n || len(list.Holds) != min(n, 5) {
			t.Errorf("%q: found %d, want %d, and %d are listed", text, list.Found, n, len(list.Holds))
		}
	}
	ends := func(key string) bool { return strings.HasSuffix(key, "7") }
	if list := s.SearchHolds(view.Search{Match: ends, Text: "owner-77", Count: 50}); list.Found != 2 {
		t.Errorf("found %d that match, want 2", list.Found)
	}
	waiting := other.Start("LOCK.ACQUIRE", byAge[500], "BLOCK", "0")
	locktest.Eventually(t, locktest.Soon, "it waits", func() bool { return s.Stats().Waiters == 1 })
	list := s.SearchHolds(view.Search{By: view.ByWaiters, Reverse: true, Count: 1})
	if got := list.Holds[0]; got.Key != byAge[500] || got.Waiters != 1 || got.Owner != "owner-500" || got.Left <= 0 ||
		got.Left > got.TTL || got.ClientID != clientOf(c) {
		t.Errorf("the lock with a waiter: got %+v", got)
	}
	locktest.Want(t, c.Do("LOCK.RELEASE", byAge[500]), ":1")
	<-waiting
	if list := s.SearchHolds(view.Search{Text: "owner-500"}); list.Found != 0 {
		t.Errorf("a hold that has ended: found %d", list.Found)
	}
}

func clientOf(c *locktest.Client) int64 { return c.Carrier.ClientID() }

// TestSearchHoldsBesideChanges searches while holds come and go.
func TestSearchHoldsBesideChanges(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	stays, key := locktest.Connect(t, s), locktest.NewKey()
	for i := range 600 {
		stays.Token(fmt.Sprintf("%s:stays:%d", key, i))
	}
	var changes sync.WaitGroup
	for i := range 4 {
		c := locktest.Connect(t, s)
		changes.Go(func() {
			for n := range 50 {
				name := fmt.Sprintf("%s:%d:%d", key, i, n)
				c.Do("LOCK.ACQUIRE", name)
				c.Do("LOCK.RELEASE", name)
			}
		})
	}
	done := make(chan struct{})
	go func() { changes.Wait(); close(done) }()
	for by := view.ByAge; ; by = (by + 1) % (view.ByMode + 1) {
		if list := s.SearchHolds(view.Search{Text: ":stays:", By: by, Count: 50}); list.Found != 600 ||
			len(list.Holds) != 50 {
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, elsewhere := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
		show := func(key string) view.Lock {
			t.Helper()
			v, err := s.ViewLock(0, key, s.Redis.Deadline())
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if v := show(key); v.State != view.Free || len(v.Holds) != 0 {
			t.Errorf("a free lock: got %+v", v)
		}
		token := a.Token(key, "OWNER", "me")
		waiting := b.Start("LOCK.ACQUIRE", key, "BLOCK", "0", "OWNER", "you")
		locktest.Eventually(t, locktest.Soon, "it waits", func() bool { return show(key).Waiters == 1 })
		v := show(key)
		if v.State != view.Held || v.Mode != "plain" || len(v.Holds) != 1 || v.Holds[0].Token != token ||
			v.Holds[0].Owner != "me" || v.Holds[0].ClientID != clientOf(a) {
			t.Errorf("a held lock: got %+v", v)
		}
		if w := v.Queue[0]; w.Owner != "you" || w.ClientID != clientOf(b) || w.Mode != "plain" {
			t.Errorf("its waiter: got %+v", w)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		<-waiting

		far := locktest.Connect(t, elsewhere)
		token = far.Token(key+":far", "READ")
		v = show(key + ":far")
		if len(v.Holds) != 1 || v.Holds[0].Token != token || v.Holds[0].ClientID != 0 ||
			v.Holds[0].Leash != elsewhere.Holds.Leash {
			t.Errorf("a lock of another Leash: got %+v", v)
		}
		far.Do("SEM.INIT", key+":sem", "2")
		if reply := a.Do("SEM.ACQUIRE", key+":sem"); reply[0] != '$' {
			t.Fatalf("got %s", reply)
		}
		if v = show(key + ":sem"); v.State != view.Held || v.Mode != "permit" || len(v.Holds) != 1 {
			t.Errorf("a semaphore: got %+v", v)
		}
		if _, err := s.ViewLock(0, "{"+key+"}:leash", s.Redis.Deadline()); err == nil {
			t.Error("the name of a helper key is no lock")
		}
	})
}

// changeLog is an Observer that keeps everything.
type changeLog struct {
	all bool
	mu  sync.Mutex
	got []view.Change
}

func (r *changeLog) Watches() bool { return r.all }

func (r *changeLog) Observe(c view.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, c)
}

// kinds are the changes of a lock, in order.
func (r *changeLog) kinds(key string) (kinds []view.Kind) {
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
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	all, few := &changeLog{all: true}, &changeLog{}
	s.AddObserver(all)
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	told := func(o *changeLog, key string, want ...view.Kind) {
		t.Helper()
		locktest.Eventually(t, locktest.Soon, "the observer is told",
			func() bool { return slices.Equal(o.kinds(key), want) })
	}
	a.Token(key)
	a.Do("LOCK.RELEASE", key)
	told(all, key, view.Granted, view.Released)
	token := a.Token(key+":moved", "OWNER", "me")
	locktest.Want(t, b.Do("LOCK.ATTACH", key+":moved", "OWNER", "me", "TOKEN", fmt.Sprint(token)),
		fmt.Sprintf(":%d", token))
	locktest.Eventually(t, locktest.Soon, "the move is told",
		func() bool { return slices.Contains(all.kinds(key+":moved"), view.Moved) })
	a.Token(key + ":broken")
	locktest.Want(t, b.Do("LOCK.BREAK", key+":broken"), ":1")
	told(all, key+":broken", view.Granted, view.Lost, view.Released)
	a.Token(key + ":left")
	a.Carrier.End(lockcmd.Expire)
	told(all, key+":left", view.Granted, view.Expiring)

	s.AddObserver(few)
	b.Token(key + ":few")
	locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key+":few"), ":1")
	told(few, key+":few", view.Lost)
	if c := few.got[0]; c.Reason != "broken" || c.Client.Name != locktest.TestClientName || c.Owner == "" ||
		c.Token == 0 {
		t.Errorf("the loss: got %+v", c)
	}
}
