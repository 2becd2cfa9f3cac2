package lockcmd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/renewal"
)

// A READ or WRITE hold, or a permit, has several keys. During a slot migration they may be on two
// nodes, where no script can use them all. Renewals and releases then go on with one key a request
// (R14). The release of a permit does not: it waits, or the lease ends.

// perKeyRenewal renews holds of a batch that way.
type perKeyRenewal struct {
	store *store
	batch renewal.Batch
	holds []*hold
	out   []renewal.Outcome // one for each hold
}

// renewPerKey renews the holds of a batch for which want is true, and writes the outcomes to out.
func (s *store) renewPerKey(ctx context.Context, b renewal.Batch, out []renewal.Outcome, want func(i int) bool) {
	pk := &perKeyRenewal{store: s, batch: b}
	var positions []int
	for i, w := range b.Holds {
		if want(i) {
			pk.holds, positions = append(pk.holds, w.Keeper.(*hold)), append(positions, i)
		}
	}
	pk.out = make([]renewal.Outcome, len(pk.holds))
	pk.renewTimeouts(ctx, pk.renewFields(ctx))
	for i, position := range positions {
		out[position] = pk.out[i]
	}
}

// renewFields renews the key that has the hold, which is the lock or the zset of permits, and the
// records. It returns the counts of the holds.
func (pk *perKeyRenewal) renewFields(ctx context.Context) (counts []int64) {
	var cmds [][2]script.Once
	pipe := pk.store.redis.Database(pk.batch.DB).Pipeline()
	for _, h := range pk.holds {
		begins, keys := script.RecordPrefix(h.token, h.carrier.name), h.mode().Keys(h.key(), h.owner())
		lock, records := keys[len(keys)-2], keys[len(keys)-1]
		cmds = append(cmds, [2]script.Once{pk.send(ctx, pipe, h, lock, h.owner(), ""), pk.send(ctx, pipe, h, records, h.owner(), begins)})
	}
	pipe.Exec(ctx) // each command has its own error
	counts = make([]int64, len(pk.holds))
	for i, pair := range cmds {
		lock, records := outcome(pair[0]), outcome(pair[1])
		switch {
		case lock == renewal.Gone || records == renewal.Gone:
			pk.out[i] = renewal.Gone
		case lock == renewal.Renewed && records == renewal.Renewed:
			pk.out[i] = renewal.Renewed
			n, _ := pair[0].Int64() // the command did not fail
			counts[i] = min(n, maxPerKeyCounts)
		}
	}
	return counts
}

// maxPerKeyCounts is how many timeout keys of a READ hold are renewed one by one. Further ones
// expire. It also limits the loop for any number that Redis may answer.
const maxPerKeyCounts = 1 << 20

// renewTimeouts renews the timeout keys of the READ holds that are there.
func (pk *perKeyRenewal) renewTimeouts(ctx context.Context, counts []int64) {
	cmds := make([][]script.Once, len(pk.holds))
	pipe := pk.store.redis.Database(pk.batch.DB).Pipeline()
	for i, h := range pk.holds {
		if h.mode() != script.Read || pk.batch.Lease || pk.out[i] != renewal.Renewed {
			continue
		}
		for n := range counts[i] {
			cmds[i] = append(cmds[i], pk.send(ctx, pipe, h, script.TimeoutKey(h.key(), h.owner(), n+1), "", ""))
		}
	}
	pipe.Exec(ctx)
	for i := range cmds {
		for _, cmd := range cmds[i] {
			if outcome(cmd) != renewal.Renewed {
				pk.out[i] = renewal.Unknown
			}
		}
	}
}

// send adds the renewal of one key to a pipeline.
func (pk *perKeyRenewal) send(ctx context.Context, pipe redis.Pipeliner, h *hold, key, owner, begins string) script.Once {
	ttl := pk.batch.TTL / time.Millisecond
	if pk.batch.Lease {
		ttl = 0
	}
	cmd := h.mode().RenewKey.Command(ctx, "EVAL", []string{key}, script.Args(int64(ttl), owner, begins))
	pipe.Process(ctx, cmd)
	return cmd
}

// outcome is the outcome of the renewal of one key.
func outcome(cmd script.Once) renewal.Outcome {
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

// ask sends the release. If a slot migration splits the keys, it sends one request a key. It then
// goes on that way, because the records and the lock differ from then on.
func (rel *releaseRequest) ask(until time.Time) (code int64, err error) {
	if rel.perKeyCounts == 0 {
		rel.call.Args = append(rel.call.Args[:releaseArgs], rel.turnArgs()...)
		reply, err := rel.service.redis.Ask(rel.call, until)
		code = script.IntegersOf(reply)[0]
		if rel.hold.mode().ReleaseKey == nil || !script.KeysSplit(err) {
			return code, err
		}
		m, id := rel.hold.mode(), rel.hold.lock()
		inspect := &script.Call{Script: m.RenewKey, DB: id.db, Keys: []string{id.key}, Args: script.Args(0, rel.hold.owner(), "")}
		if rel.perKeyCounts, err = rel.service.redis.AskInt(inspect, until); err != nil {
			return 0, err
		}
		rel.perKeyCounts = max(min(rel.perKeyCounts, maxPerKeyCounts), 1)
	}
	code, err = rel.askKey(script.RecordsKey(rel.hold.key()), "records", until)
	if err == nil && code == noSuchHold && rel.call.OutcomeUnknown {
		code = holdEnded // an earlier copy ended it
	}
	if err != nil || code < 0 {
		return code, err
	}
	rel.call.OutcomeUnknown = true
	if _, err = rel.askKey(rel.hold.key(), "lock", until); err != nil {
		return 0, err
	}
	if rel.hold.mode() == script.Read {
		rel.dropTimeouts(code == holdEnded, until)
	}
	return code, nil
}

// askKey sends the part of the release for one key.
func (rel *releaseRequest) askKey(key, what string, until time.Time) (int64, error) {
	call := &script.Call{
		Script: rel.hold.mode().ReleaseKey, DB: int(rel.hold.db), Keys: []string{key}, Args: slices.Concat(rel.call.Args[:releaseArgs], []string{rel.hold.mode().Channel(rel.hold.key()), rel.service.cfg.publishMode()}, script.Args(rel.perKeyCounts, what)),
	}
	code, err := rel.service.redis.AskInt(call, until)
	rel.call.OutcomeUnknown = rel.call.OutcomeUnknown || call.OutcomeUnknown
	return code, err
}

// dropTimeouts deletes the timeout keys of the counts that the release ends. Keys that it cannot
// reach expire.
func (rel *releaseRequest) dropTimeouts(all bool, until time.Time) {
	h, s := rel.hold, rel.service
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	rdb := s.redis.Database(int(h.db))
	for n := rel.perKeyCounts; n > 0; n-- {
		last := script.TimeoutKey(h.key(), h.owner(), n)
		if !all { // the first key lasts as long as this one would have (R12)
			if left := rdb.PTTL(ctx, last).Val(); left > 0 {
				s.redis.Ask(&script.Call{Script: h.mode().RenewKey, DB: int(h.db), Keys: []string{script.TimeoutKey(h.key(), h.owner(), 1)}, Args: script.Args(left.Milliseconds(), "", "")}, until)
			}
		}
		if err := rdb.Del(ctx, last).Err(); err != nil || !all {
			return
		}
	}
}
