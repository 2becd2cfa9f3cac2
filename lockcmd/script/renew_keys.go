package script

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A READ or WRITE hold, or a permit, has several keys. During a slot migration they may be on two
// nodes, where no script can use them all. Renewals then go on with one key a call (R14).

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
	cmds := make([][2]once, len(k.some))
	pipe := k.client.Database(k.batch.DB).Pipeline()
	for j, i := range k.some {
		key, token, carrier := k.batch.Holds.Hold(i)
		owner := k.owner(i)
		keys := k.batch.Mode.Keys(key)
		lock, records := keys[len(keys)-2], keys[len(keys)-1]
		cmds[j] = [2]once{k.send(ctx, pipe, lock, owner, ""),
			k.send(ctx, pipe, records, owner, RecordPrefix(token, carrier))}
	}
	pipe.Exec(ctx) // each command has its own error
	k.counts = make([]int64, len(k.some))
	for j, i := range k.some {
		lock, records := keyReply(cmds[j][0]), keyReply(cmds[j][1])
		switch {
		case lock == renewGone || records == renewGone:
			k.replies[i] = renewGone
		case lock == renewDone && records == renewDone:
			k.replies[i] = renewDone
			n, _ := cmds[j][0].Int64() // the command did not fail
			k.counts[j] = min(n, maxPerKeyCounts)
		}
	}
}

// maxPerKeyCounts is how many timeout keys of a READ hold are handled one by one. Further ones
// expire. It also limits the loop for any number that Redis may answer.
const maxPerKeyCounts = 1 << 20

// renewTimeouts renews the timeout keys of the READ holds that are there.
func (k *keyRenewal) renewTimeouts(ctx context.Context) {
	cmds := make([][]once, len(k.some))
	pipe := k.client.Database(k.batch.DB).Pipeline()
	for j, i := range k.some {
		key, _, _ := k.batch.Holds.Hold(i)
		for n := range k.counts[j] {
			cmds[j] = append(cmds[j], k.send(ctx, pipe, TimeoutKey(key, k.owner(i), n+1), "", ""))
		}
	}
	pipe.Exec(ctx)
	for j, i := range k.some {
		for _, cmd := range cmds[j] {
			if keyReply(cmd) != renewDone {
				k.replies[i] = renewUnknown
			}
		}
	}
}

func (k *keyRenewal) owner(i int) string { return string(k.batch.Holds.AppendOwner(i, nil)) }

// send adds the renewal of one key to a pipeline.
func (k *keyRenewal) send(ctx context.Context, pipe redis.Pipeliner, key, owner, begins string) once {
	ms := int64(k.batch.Lasts / time.Millisecond)
	cmd := k.batch.Mode.RenewKey.command(ctx, "EVAL", []string{key}, words(ms, owner, begins))
	pipe.Process(ctx, cmd)
	return cmd
}

// keyReply is what Redis says of one key.
func keyReply(cmd once) RenewReply {
	n, err := cmd.Int64()
	var answer redis.Error
	switch {
	case errors.As(err, &answer) && redis.HasErrorPrefix(err, "WRONGTYPE"), err == nil && n == 0:
		return renewGone
	case err == nil:
		return renewDone
	}
	return renewUnknown
}
