package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

const (
	auditEvery = 100 * time.Millisecond
	// idleTolerance is how long a lock may be free while a client waits for it. Time in which
	// something was broken and grace periods of new masters are added to it. A waiting client asks
	// every 1.2 s.
	idleTolerance = 4 * time.Second
	// fairTolerance is the same for fair locks. The first in the queue may be a waiter of a Leash
	// that was killed. It stays in the queue for 10 s.
	fairTolerance = 15 * time.Second
)

// audit reads the locks from Redis directly, not through Leash or the proxies. It compares them
// with the clients that wait and with the holds that have ended. It is safe for concurrent use.
type audit struct {
	bed     *testbed
	history *history.History
	tally   *history.Tally
	grace   time.Duration // the longest time after a failover in which Leash grants nothing

	mu        sync.Mutex
	waits     map[string]map[int]time.Time // by lock and number, the start of each wait
	next      int                          // the number of the last wait
	freeSince map[string]time.Time         // by lock, the time since when it is free
	// the longest time that a lock was free while a client waited and nothing was broken
	longest     time.Duration
	longestFair time.Duration                     // the same for fair locks
	sightings   map[string]*sighting              // by lock, the latest one
	masters     map[string][]history.MasterPeriod // by lock, the masters that had it
}

// sighting is what a node had of a lock, for as long as that did not change.
type sighting struct {
	what  string
	again bool          // it was seen more than once
	at    time.Time     // when it was seen last
	left  time.Duration // how much longer the lock would have lasted at that time
}

// liveHolds returns the records of the holds that hold a read-write lock. The field of a reader
// that has expired stays while other readers hold the lock. Such a field counts for nothing. As in
// Redisson, a reader holds the lock while one of its counts has a timeout key.
const liveHolds = `
local held, out = redis.call('HGETALL', KEYS[2]), {}
for i = 1, #held, 2 do
  local n, alive = tonumber(redis.call('HGET', KEYS[1], held[i]) or 0), false
  if string.sub(held[i], -6) == ':write' then alive = n > 0 and redis.call('HGET', KEYS[1], 'mode') == 'write' end
  for j = 1, n do
    alive = alive or redis.call('EXISTS', string.sub(KEYS[2], 1, -6) .. held[i] .. ':rwlock_timeout:' .. j) == 1
  end
  if alive then out[#out + 1] = held[i + 1] end
end
return out`

func newAudit(b *testbed, h *history.History, t *history.Tally, grace time.Duration) *audit {
	return &audit{
		bed: b, history: h, tally: t, grace: grace,
		waits: make(map[string]map[int]time.Time), freeSince: make(map[string]time.Time), sightings: make(map[string]*sighting),
		masters: make(map[string][]history.MasterPeriod),
	}
}

// waiting notes that a client waits for a lock, until done is called.
func (a *audit) waiting(key string) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	n := a.next
	if a.waits[key] == nil {
		a.waits[key] = make(map[int]time.Time)
	}
	a.waits[key][n] = time.Now()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waits[key], n)
	}
}

// run reads the locks until ctx ends. It reads each node separately, so that a node that does not
// answer does not delay the others.
func (a *audit) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, n := range a.bed.cluster.Nodes {
		wg.Go(func() {
			ticker := time.NewTicker(auditEvery)
			defer ticker.Stop()
			for ctx.Err() == nil {
				a.look(ctx, n)
				select {
				case <-ctx.Done():
				case <-ticker.C:
				}
			}
		})
	}
	wg.Wait()
}

// look asks a node for all locks. It ignores a lock if the reply is an error. That is so for a lock
// of another node, and if the node does not answer.
func (a *audit) look(ctx context.Context, n *redistest.Node) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	asked := time.Now()
	pipe := n.Client().Pipeline()
	var reads []func()
	for _, key := range append(a.bed.realKeys(), a.bed.counters.keys()...) {
		left := pipe.PTTL(ctx, key)
		switch history.KindOf(key) {
		case "rw":
			lock, records := pipe.Exists(ctx, key), pipe.EvalRO(ctx, liveHolds, []string{key, "{" + key + "}:leash"})
			reads = append(reads, func() {
				all, err := records.StringSlice()
				a.readRecords(seen{n, key, asked, left, lock.Val() == 0}, all, lock.Err(), err)
			})
		case "latch":
		case "count":
			count := pipe.Get(ctx, key)
			reads = append(reads, func() {
				have, err := count.Int()
				a.readRecords(seen{n, key, asked, left, have > 0}, nil, err)
			})
		case "sem":
			available := pipe.Get(ctx, key)
			out := pipe.ZRangeByScore(ctx, "{"+key+"}:timeout", &redis.ZRangeBy{Min: strconv.FormatInt(time.Now().UnixMilli(), 10), Max: "+inf"})
			reads = append(reads, func() { a.readPermits(seen{node: n, key: key, asked: asked, left: left}, available, out) })
		default:
			record := pipe.HGet(ctx, key, "leash")
			reads = append(reads, func() {
				if err := record.Err(); err == redis.Nil {
					a.readRecords(seen{n, key, asked, left, true}, nil)
				} else {
					a.readRecords(seen{n, key, asked, left, false}, []string{record.Val()}, err)
				}
			})
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, read := range reads {
		read()
	}
}

// seen is what a node had of a lock when it was asked.
type seen struct {
	node  *redistest.Node
	key   string
	asked time.Time
	left  *redis.DurationCmd
	free  bool
}

func (a *audit) readPermits(s seen, available *redis.StringCmd, out *redis.StringSliceCmd) {
	n, err := available.Int()
	s.free = n > 0
	var tokens []string
	for _, member := range out.Val() {
		tokens = append(tokens, hex.EncodeToString([]byte(member)))
	}
	a.noteTokens(s, tokens, err, out.Err())
}

// readRecords reads the tokens from the records of a lock, and notes them.
func (a *audit) readRecords(s seen, records []string, errs ...error) {
	var tokens []string
	for _, r := range records {
		if f := strings.Fields(r); len(f) > 2 && f[0] == "L1" {
			tokens = append(tokens, f[1])
		}
	}
	a.noteTokens(s, tokens, errs...)
}

// noteTokens notes the tokens that Redis had of a lock. It reports a lock that is free for too long
// while a client waits for it.
func (a *audit) noteTokens(s seen, tokens []string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			return
		}
	}
	key, asked := s.key, s.asked
	for _, token := range tokens {
		a.history.NoteSeen(key, token, asked)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteChange(s, tokens)
	if masters := a.masters[key]; len(masters) == 0 || masters[len(masters)-1].Node != s.node.Announced() {
		a.masters[key] = append(masters, history.MasterPeriod{Node: s.node.Announced(), From: asked})
	}
	if !s.free {
		delete(a.freeSince, key)
		return
	}
	if _, ok := a.freeSince[key]; !ok {
		a.freeSince[key] = asked
	}
	since, waits := a.freeSince[key], false
	first := asked
	for _, began := range a.waits[key] {
		first, waits = history.Earlier(first, began), true
	}
	since = history.Later(since, first)
	if !waits {
		return
	}
	idle, tolerance, longest := asked.Sub(since)-a.history.Faults.DisturbedOrInGrace(since, asked, a.grace), idleTolerance, &a.longest
	if history.KindOf(key) == "fair" {
		tolerance, longest = fairTolerance, &a.longestFair
		// Redis's clock also says when such a waiter leaves the queue.
		idle -= a.history.Lengthened(key, since.Add(-fairTolerance), asked)
	}
	*longest = max(*longest, idle)
	if idle > tolerance {
		a.tally.Violation(key, 0, "%s has been free for %v while a client waits", key, history.Round(asked.Sub(since)))
		a.freeSince[key] = asked // report it only once
	}
}

// noteChange notes what was seen of a lock if it differs from what was seen before. It also notes
// when the earlier state was seen last. a.mu must be held.
func (a *audit) noteChange(s seen, tokens []string) {
	slices.Sort(tokens)
	what := fmt.Sprintf("redis at %s has of %s: %v, and it lasts for", s.node.Announced(), s.key, tokens)
	was := a.sightings[s.key]
	if was == nil || was.what != what {
		if was != nil && was.again {
			a.history.NoteLock(s.key, was.at, "%s %v", was.what, was.left)
		}
		a.history.NoteLock(s.key, s.asked, "%s %v", what, s.left.Val())
		a.sightings[s.key] = &sighting{what: what}
		return
	}
	was.again, was.at, was.left = true, s.asked, s.left.Val()
}
