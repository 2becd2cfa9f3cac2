package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"leash/lockcmd"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/view"
)

// hold is a hold in JSON. Times are in milliseconds.
type hold struct {
	Key      string `json:"key"`
	Link     string `json:"link"` // the query for /api/lock; empty if the key is too long for one
	DB       int    `json:"db"`
	Mode     string `json:"mode"`
	Owner    string `json:"owner"`
	Token    int64  `json:"token"`
	Client   string `json:"client"`
	ClientID int64  `json:"client_id"` // 0 if it is on another Leash
	Leash    string `json:"leash"`     // empty if no Leash carries it
	Count    int64  `json:"count"`
	Age      int64  `json:"age_ms"`
	Left     int64  `json:"left_ms"`
	TTL      int64  `json:"ttl_ms"`
	Lease    bool   `json:"lease"` // it is not renewed
	Waiters  int    `json:"waiters"`
}

func holdOf(v view.Hold) hold {
	return hold{
		Key: shown(v.Key), Link: linkOf(v.DB, v.Key), DB: v.DB, Mode: v.Mode, Owner: shown(v.Owner), Token: v.Token,
		Client: shown(v.Client), ClientID: v.ClientID, Leash: v.Leash, Count: v.Count, Age: v.Age.Milliseconds(),
		Left: max(v.Left.Milliseconds(), 0), TTL: v.TTL.Milliseconds(), Lease: v.Lease, Waiters: v.Waiters,
	}
}

func holdsOf(views []view.Hold) []hold {
	holds := make([]hold, 0, len(views))
	for _, v := range views {
		holds = append(holds, holdOf(v))
	}
	return holds
}

// holdOrders are the values of sort.
var holdOrders = map[string]view.Order{
	"age": view.ByAge, "key": view.ByKey, "ttl": view.ByTTL, "waiters": view.ByWaiters, "mode": view.ByMode,
}

// showHolds lists holds of this Leash. One search runs at a time, because it visits all holds.
func (c *Console) showHolds(q question) (any, error) {
	search, first, err := q.page()
	if err != nil {
		return nil, err
	}
	name, reverse := strings.CutPrefix(q.Get("sort"), "-")
	if name == "" {
		name = "age"
	}
	by, ok := holdOrders[name]
	if !ok {
		return nil, badInput("sort is age, key, ttl, waiters or mode, with - before it for the other direction")
	}
	select {
	case c.search <- struct{}{}:
		defer func() { <-c.search }()
	case <-q.Context().Done():
		return nil, errTooMany
	}
	began := time.Now()
	list := q.Locks.SearchHolds(view.Search{
		Text: search, By: by, Reverse: reverse, First: first, Count: pageSize,
	})
	return map[string]any{
		"found": list.Found, "page_size": pageSize, "holds": holdsOf(list.Holds),
		"took_ms": time.Since(began).Milliseconds(),
	}, nil
}

// waiter is a command that waits for a lock, in JSON.
type waiter struct {
	Mode     string `json:"mode"`
	Owner    string `json:"owner"`
	Client   string `json:"client"`
	ClientID int64  `json:"client_id"`
	Waited   int64  `json:"waited_ms"`
}

// lockTimeout is how long a question about a lock waits for Redis.
const lockTimeout = 3 * time.Second

// showLock shows one lock, held through any Leash.
func (c *Console) showLock(q question) (any, error) {
	key, db, err := q.lock()
	if err != nil {
		return nil, err
	}
	v, err := q.Locks.ViewLock(db, key, time.Now().Add(lockTimeout))
	if err != nil {
		return nil, refusalOf(err)
	}
	queue := make([]waiter, 0, len(v.Queue))
	for _, w := range v.Queue {
		queue = append(queue, waiter{w.Mode, shown(w.Owner), shown(w.Client), w.ClientID, w.Waited.Milliseconds()})
	}
	return map[string]any{
		"key": shown(key), "db": db, "link": linkOf(db, key), "state": v.State, "mode": v.Mode,
		"left_ms": v.Left.Milliseconds(), "holds": holdsOf(v.Holds), "queue": queue, "waiters": v.Waiters,
		"fair_queue": v.FairQueue, "events": c.feed.ofLock(db, key),
	}, nil
}

// maxDatabase is the highest number of a database that Redis may have.
const maxDatabase = 1<<31 - 1

func (q question) lock() (key string, db int, err error) {
	if db, err = q.number("db", 0, 0, maxDatabase); err != nil {
		return "", 0, err
	}
	switch key = q.Get("key"); {
	case !q.Has("key"):
		return "", 0, badInput("give the key of the lock, as in /api/lock?key=order:42")
	case len(key) > maxKey:
		return "", 0, badInput("the key has more than %d bytes", maxKey)
	}
	return key, db, nil
}

// refusalOf is the answer to an error of the locks.
func refusalOf(err error) error {
	var bad *lockcmd.BadKeyError
	switch {
	case errors.As(err, &bad):
		return &refusal{http.StatusBadRequest, bad.Text}
	case transport.IsSilence(err):
		return &refusal{http.StatusGatewayTimeout, "Redis did not answer in time"}
	}
	return &refusal{http.StatusBadGateway, "Redis answered: " + shown(transport.ErrorText(err))}
}
