package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/script"
)

// A READ or WRITE hold has several keys. During a slot migration they may be on two nodes, where no
// script can use them all. Releases then go on with one key a request (R14). The release of a
// permit does not: it waits, or the lease ends.

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
