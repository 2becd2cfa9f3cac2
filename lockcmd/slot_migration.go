package lockcmd

import (
	"context"
	"errors"
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
		cmds = append(cmds, [2]script.Once{pk.send(ctx, pipe, h, lock, h.owner(), ""),
			pk.send(ctx, pipe, h, records, h.owner(), begins)})
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
func (pk *perKeyRenewal) send(ctx context.Context, pipe redis.Pipeliner, h *hold, key, owner,
	begins string) script.Once {
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
	args, redis := rel.args(), rel.service.redis
	defer func() { rel.outcomeUnknown = args.Unknown }()
	if rel.perKeyCounts == 0 {
		code, err = redis.Release(&args, until)
		if args.End.Mode.ReleaseKey == nil || !script.KeysSplit(err) {
			return code, err
		}
		if rel.perKeyCounts, err = redis.CountsOf(args.End.Hold.Lock, args.End.Mode, args.End.Owner,
			until); err != nil {
			return 0, err
		}
		rel.perKeyCounts = max(min(rel.perKeyCounts, maxPerKeyCounts), 1)
	}
	code, err = redis.ReleasePart(&args, script.RecordsPart, rel.perKeyCounts, until)
	if err == nil && code == script.NoSuchHold && args.Unknown {
		code = script.HoldEnded // an earlier copy ended it
	}
	if err != nil || code < 0 {
		return code, err
	}
	args.Unknown = true
	if _, err = redis.ReleasePart(&args, script.LockPart, rel.perKeyCounts, until); err != nil {
		return 0, err
	}
	if args.End.Mode == script.Read {
		rel.dropTimeouts(code == script.HoldEnded, until)
	}
	return code, nil
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
				s.redis.SetTimeout(h.lock().inRedis(), h.owner(), left, until)
			}
		}
		if err := rdb.Del(ctx, last).Err(); err != nil || !all {
			return
		}
	}
}
