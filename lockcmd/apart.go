package lockcmd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// A hold of a read-write lock, or a permit, has several keys, and while its slot migrates they may
// lie on two nodes, where no script can touch them all: what must go on then goes on with one key a
// request (R14). A permit's release does not: it waits, or the lease ends.

// apart are the holds of a batch that are kept so.
type apart struct {
	store *store
	batch renewal.Batch
	holds []*hold
	out   []renewal.Outcome // for each of holds
}

// keepApart renews those holds of a batch for which want says so, and writes the outcomes down in
// out.
func (s *store) keepApart(ctx context.Context, b renewal.Batch, out []renewal.Outcome, want func(i int) bool) {
	a := &apart{store: s, batch: b}
	var places []int
	for i, w := range b.Holds {
		if want(i) {
			a.holds, places = append(a.holds, w.Keeper.(*hold)), append(places, i)
		}
	}
	a.out = make([]renewal.Outcome, len(a.holds))
	a.keepTimeouts(ctx, a.keepFields(ctx))
	for i, place := range places {
		out[place] = a.out[i]
	}
}

// keepFields renews what each hold is in, the lock or the zset of permits, and the records, and
// returns its count.
func (a *apart) keepFields(ctx context.Context) (counts []int64) {
	var cmds [][2]once
	pipe := a.store.database(a.batch.DB).Pipeline()
	for _, h := range a.holds {
		begins, keys := mark(h.token, h.carrier.name), h.mode().keys(h.key(), h.owner())
		lock, records := keys[len(keys)-2], keys[len(keys)-1]
		cmds = append(cmds, [2]once{a.send(ctx, pipe, h, lock, h.owner(), ""), a.send(ctx, pipe, h, records, h.owner(), begins)})
	}
	pipe.Exec(ctx) // each command has its own error
	counts = make([]int64, len(a.holds))
	for i, pair := range cmds {
		lock, records := outcome(pair[0]), outcome(pair[1])
		switch {
		case lock == renewal.Gone || records == renewal.Gone:
			a.out[i] = renewal.Gone
		case lock == renewal.Renewed && records == renewal.Renewed:
			a.out[i] = renewal.Renewed
			n, _ := pair[0].Int64() // it did not fail
			counts[i] = min(n, maxApart)
		}
	}
	return counts
}

// maxApart is for how many counts of a READ hold the timeout keys are kept one by one. More run out
// by themselves, and no number that Redis answers makes a loop without end.
const maxApart = 1 << 20

// keepTimeouts renews the timeout keys of each READ hold that is there.
func (a *apart) keepTimeouts(ctx context.Context, counts []int64) {
	cmds := make([][]once, len(a.holds))
	pipe := a.store.database(a.batch.DB).Pipeline()
	for i, h := range a.holds {
		if h.mode() != read || a.batch.Lease || a.out[i] != renewal.Renewed {
			continue
		}
		for n := range counts[i] {
			cmds[i] = append(cmds[i], a.send(ctx, pipe, h, timeoutKey(h.key(), h.owner(), n+1), "", ""))
		}
	}
	pipe.Exec(ctx)
	for i := range cmds {
		for _, cmd := range cmds[i] {
			if outcome(cmd) != renewal.Renewed {
				a.out[i] = renewal.Unknown
			}
		}
	}
}

// send puts the renewal of one key into a pipeline.
func (a *apart) send(ctx context.Context, pipe redis.Pipeliner, h *hold, key, owner, begins string) once {
	ttl := a.batch.TTL / time.Millisecond
	if a.batch.Lease {
		ttl = 0
	}
	cmd := h.mode().keep.command(ctx, "EVAL", []string{key}, words(int64(ttl), owner, begins))
	pipe.Process(ctx, cmd)
	return cmd
}

// outcome is what the renewal of one key says.
func outcome(cmd once) renewal.Outcome {
	n, err := cmd.Int64()
	var answer redis.Error
	switch {
	case errors.As(err, &answer) && redis.HasErrorPrefix(err, "WRONGTYPE"), err == nil && n == 0:
		return renewal.Gone
	case err == nil:
		return renewal.Renewed
	}
	return renewal.Unknown
}

// ask sends the release, and as several requests when the hold's keys lie apart. Once it has begun
// so it goes on so, since then the records and the lock do not agree.
func (e *ending) ask(until time.Time) (code int64, err error) {
	if e.counts == 0 {
		reply, err := e.service.ask(e.request, until)
		n := numbers(reply)
		// a plain PUBLISH counts one node's only
		code, e.alone = n[0], len(n) > 2 && max(n[1], n[2]) <= 1 && (n[2] >= 0 || !e.service.cluster)
		if e.hold.mode().apart == nil || !tryAgain(err) {
			return code, err
		}
		m, id := e.hold.mode(), e.hold.lock()
		look := &request{script: m.keep, db: id.db, keys: []string{id.key}, args: words(0, e.hold.owner(), "")}
		if e.counts, err = e.service.number(look, until); err != nil {
			return 0, err
		}
		e.counts = max(min(e.counts, maxApart), 1)
	}
	code, err = e.askOne(recordsKey(e.hold.key()), "records", until)
	if err == nil && code == notThere && e.request.doubt {
		code = endedIt // an earlier copy has done it
	}
	if err != nil || code < 0 {
		return code, err
	}
	e.request.doubt = true
	if _, err = e.askOne(e.hold.key(), "lock", until); err != nil {
		return 0, err
	}
	if e.hold.mode() == read {
		e.dropTimeouts(code == endedIt, until)
	}
	return code, nil
}

// askOne sends the part of the release that is about one key.
func (e *ending) askOne(key, what string, until time.Time) (int64, error) {
	r := &request{
		script: e.hold.mode().apart, db: int(e.hold.db), keys: []string{key}, args: slices.Concat(e.request.args, words(e.counts, what)),
	}
	code, err := e.service.number(r, until)
	e.request.doubt = e.request.doubt || r.doubt
	return code, err
}

// dropTimeouts deletes the timeout keys that the release leaves without a count. Those it cannot
// reach run out by themselves.
func (e *ending) dropTimeouts(all bool, until time.Time) {
	h, s := e.hold, e.service
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	rdb := s.database(int(h.db))
	for n := e.counts; n > 0; n-- {
		last := timeoutKey(h.key(), h.owner(), n)
		if !all { // the first one lasts as long as this one would have (R12)
			if left := rdb.PTTL(ctx, last).Val(); left > 0 {
				s.ask(&request{script: h.mode().keep, db: int(h.db), keys: []string{timeoutKey(h.key(), h.owner(), 1)}, args: words(left.Milliseconds(), "", "")}, until)
			}
		}
		if err := rdb.Del(ctx, last).Err(); err != nil || !all {
			return
		}
	}
}

// timeoutKey lives as long as the i-th count of an owner's READ hold.
func timeoutKey(key, owner string, i int64) string {
	return suffixName(key, owner+":rwlock_timeout:"+strconv.FormatInt(i, 10))
}
