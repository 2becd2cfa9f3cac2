package script

import (
	"context"
	"time"

	"leash/lockcmd/script/transport"
)

// A READ or WRITE hold, or a permit, has several keys. During a slot migration they may be on two
// nodes, where no script can use them all. Renewals and releases then go on with one key a call
// (R14). The release of a permit does not: it waits, or the lease ends.

// keyRenewal renews some holds of a batch that way.
type keyRenewal struct {
	client  *Client
	batch   *RenewBatch
	some    []int        // the indexes of these holds
	counts  []int64      // of each of them
	replies []RenewReply // to all holds of the batch
}

// renewKeys renews the holds of which Redis could say nothing, and writes what it says now.
func (c *Client) renewKeys(ctx context.Context, b *RenewBatch, replies []RenewReply) {
	k := &keyRenewal{client: c, batch: b, replies: replies}
	for i, reply := range replies {
		if reply == renewUnknown {
			k.some = append(k.some, i)
		}
	}
	k.renewFields(ctx)
	if b.Mode == Read && b.Lasts > 0 {
		k.renewTimeouts(ctx)
	}
}

// renewFields renews the key that has the hold, which is the lock or the zset of permits, and the
// records.
func (k *keyRenewal) renewFields(ctx context.Context) {
	var cmds []transport.Command
	for _, i := range k.some {
		hold, owner := k.batch.Holds.Hold(i), k.owner(i)
		keys := k.batch.Mode.Keys(hold.Key)
		lock, records := keys[len(keys)-2], keys[len(keys)-1]
		cmds = append(cmds, k.renewal(k.batch.Mode.RenewKey, lock, owner, ""),
			k.renewal(k.batch.Mode.renewRecords, records, owner, RecordPrefix(hold.Token, hold.Carrier)))
	}
	replies := k.client.DoAll(k.client.limit(ctx), k.batch.DB, cmds)
	k.counts = make([]int64, len(k.some))
	for j, i := range k.some {
		lock, records := keyReply(replies[2*j]), keyReply(replies[2*j+1])
		switch {
		case lock == renewGone || records == renewGone:
			k.replies[i] = renewGone
		case lock == renewDone && records == renewDone:
			k.replies[i] = renewDone
			n, _ := replies[2*j].Int() // the command did not fail
			k.counts[j] = min(n, maxPerKeyCounts)
		}
	}
}

// maxPerKeyCounts is how many timeout keys of a READ hold are handled one by one. Further ones
// expire. It also limits the loop for any number that Redis may answer.
const maxPerKeyCounts = 1 << 20

// renewTimeouts renews the timeout keys of the READ holds that are there.
func (k *keyRenewal) renewTimeouts(ctx context.Context) {
	var cmds []transport.Command
	var holds []int // the hold of each command
	for j, i := range k.some {
		key := k.batch.Holds.Hold(i).Key
		for n := range k.counts[j] {
			cmds = append(cmds, k.renewal(Read.RenewKey, timeoutKey(key, k.owner(i), n+1), "", ""))
			holds = append(holds, i)
		}
	}
	for j, r := range k.client.DoAll(k.client.limit(ctx), k.batch.DB, cmds) {
		if keyReply(r) != renewDone {
			k.replies[holds[j]] = renewUnknown
		}
	}
}

func (k *keyRenewal) owner(i int) string { return string(k.batch.Holds.AppendOwner(i, nil)) }

// renewal is the renewal of one key.
func (k *keyRenewal) renewal(sc *transport.Script, key, owner, begins string) transport.Command {
	return sc.Command([]string{key}, transport.Words(k.batch.Lasts.Milliseconds(), owner, begins))
}

// keyReply is what Redis says of one key.
func keyReply(r transport.Reply) RenewReply {
	n, ok := r.Int()
	switch {
	case transport.HasCode(r.Err, "WRONGTYPE"), ok && n == 0:
		return renewGone
	case ok:
		return renewDone
	}
	return renewUnknown
}

// releaseKeys is Release with one request a key, the records first. A hold that the records do not
// have was ended by an earlier copy, if there may be one.
func (c *Client) releaseKeys(args *ReleaseArgs, until time.Time) (answer int64, err error) {
	key := args.End.Hold.Lock.Key
	answer, err = c.releaseKey(args, RecordsKey(key), "records", until)
	if err == nil && answer == NoSuchHold && args.Unknown {
		answer = HoldEnded
	}
	if err != nil || answer < 0 {
		return answer, err
	}
	args.Unknown = true
	if _, err = c.releaseKey(args, key, "lock", until); err != nil {
		return 0, err
	}
	if args.End.Mode == Read {
		c.dropTimeouts(args, answer == HoldEnded, until)
	}
	return answer, nil
}

// releaseKey releases the part of a hold that is in one key.
func (c *Client) releaseKey(args *ReleaseArgs, key, part string, until time.Time) (answer int64, err error) {
	m, lock := args.End.Mode, args.End.Hold.Lock
	return c.askEnd(args, &transport.Call{
		Script: m.ReleaseKey, DB: lock.DB, Keys: []string{key},
		Args: append(args.End.list(4), m.Channel(lock.Key), c.Publish, transport.Decimal(args.PerKeyCounts), part),
	}, until)
}

// countsOf asks how many counts an owner's hold has, without the other keys of it. It returns 1 at
// least, and not more than releaseKey can handle.
func (c *Client) countsOf(lock Lock, m *Mode, owner string, until time.Time) (int64, error) {
	n, err := c.AskInt(&transport.Call{
		Script: m.RenewKey, DB: lock.DB, Keys: []string{lock.Key}, Args: transport.Words(0, owner, ""),
	}, until)
	if err != nil {
		return 0, err
	}
	return max(min(n, maxPerKeyCounts), 1), nil
}

// dropTimeouts deletes the timeout keys of the counts that the release of a READ hold ends. Keys
// that it cannot reach expire.
func (c *Client) dropTimeouts(args *ReleaseArgs, all bool, until time.Time) {
	lock, owner := args.End.Hold.Lock, args.End.Owner
	for n := args.PerKeyCounts; n > 0; n-- {
		last := timeoutKey(lock.Key, owner, n)
		if !all { // the first key lasts as long as this one would have (R12), or as before
			if left, _ := c.keyLeft(lock.DB, last, until); left > 0 {
				first := []string{timeoutKey(lock.Key, owner, 1)}
				_, _ = c.AskInt(&transport.Call{Script: Read.RenewKey, DB: lock.DB, Keys: first,
					Args: transport.Words(left.Milliseconds(), "", "")}, until)
			}
		}
		del := transport.Command{Key: last, Words: []string{"DEL", last}}
		if _, err := c.Do(until, lock.DB, del); err != nil || !all {
			return
		}
	}
}
