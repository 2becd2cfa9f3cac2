package script

import (
	"context"
	"time"
)

// A READ or WRITE hold has several keys. During a slot migration they may be on two nodes, where no
// script can use them all. Releases then go on with one key a request (R14). The release of a
// permit does not: it waits, or the lease ends.

// holdPart is a key of a READ or WRITE hold.
type holdPart string

// The parts. The records come first.
const (
	recordsPart holdPart = "records"
	lockPart    holdPart = "lock"
)

// releaseKeys is Release with one request a key. A hold that the records do not have was ended by
// an earlier copy, if there may be one.
func (c *Client) releaseKeys(args *ReleaseArgs, until time.Time) (answer int64, err error) {
	answer, err = c.releasePart(args, recordsPart, until)
	if err == nil && answer == NoSuchHold && args.Unknown {
		answer = HoldEnded
	}
	if err != nil || answer < 0 {
		return answer, err
	}
	args.Unknown = true
	if _, err = c.releasePart(args, lockPart, until); err != nil {
		return 0, err
	}
	if args.End.Mode == Read {
		c.dropTimeouts(args, answer == HoldEnded, until)
	}
	return answer, nil
}

func (c *Client) releasePart(args *ReleaseArgs, part holdPart, until time.Time) (answer int64, err error) {
	m, lock := args.End.Mode, args.End.Hold.Lock
	key := lock.Key
	if part == recordsPart {
		key = RecordsKey(key)
	}
	call := &scriptCall{
		Script: m.ReleaseKey, DB: lock.DB, Keys: []string{key},
		Args: append(args.End.list(4), m.Channel(lock.Key), c.Publish, decimal(args.PerKeyCounts), string(part)),
	}
	return c.askEnd(args, call, until)
}

// countsOf asks how many counts an owner's hold has, without the other keys of it. It returns 1 at
// least, and not more than releasePart can handle.
func (c *Client) countsOf(lock Lock, m *Mode, owner string, until time.Time) (int64, error) {
	n, err := c.askInt(&scriptCall{
		Script: m.RenewKey, DB: lock.DB, Keys: []string{lock.Key}, Args: words(0, owner, ""),
	}, until)
	if err != nil {
		return 0, err
	}
	return max(min(n, maxPerKeyCounts), 1), nil
}

// dropTimeouts deletes the timeout keys of the counts that the release of a READ hold ends. Keys
// that it cannot reach expire.
func (c *Client) dropTimeouts(args *ReleaseArgs, all bool, until time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), c.CapAtStop(until))
	defer cancel()
	lock, owner := args.End.Hold.Lock, args.End.Owner
	rdb := c.Database(lock.DB)
	for n := args.PerKeyCounts; n > 0; n-- {
		last := TimeoutKey(lock.Key, owner, n)
		if !all { // the first key lasts as long as this one would have (R12)
			if left := rdb.PTTL(ctx, last).Val(); left > 0 {
				c.setTimeout(lock, owner, left, until)
			}
		}
		if err := rdb.Del(ctx, last).Err(); err != nil || !all {
			return
		}
	}
}

// setTimeout sets how long the first count of an owner's READ hold lasts. Without an answer that
// count lasts as long as before.
func (c *Client) setTimeout(lock Lock, owner string, left time.Duration, until time.Time) {
	_, _ = c.ask(&scriptCall{
		Script: Read.RenewKey, DB: lock.DB, Keys: []string{TimeoutKey(lock.Key, owner, 1)},
		Args: words(left.Milliseconds(), "", ""),
	}, until)
}
