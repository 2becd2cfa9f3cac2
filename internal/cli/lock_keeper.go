package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/guard"
)

// checkEvery is how often a holder asks Leash how long the lock is certainly its own. Leash answers
// from memory.
const checkEvery = time.Second

// lockKeeper is the holder of a lock. It asks its Leash for the time that is certain, waits on a
// second connection for the news of a loss, and moves the lock to another Leash when its own one is
// gone.
type lockKeeper struct {
	*loss
	servers *serverList
	key     string
	mode    []any // the option READ or WRITE, else empty
	owner   string
	token   string
	until   atomic.Int64 // of validUntil, nanoseconds since start
	start   time.Time
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	x       *session // of keep, until that has ended
}

// keepLock begins to keep a lock that was granted on x by a request sent at that time.
func keepLock(servers *serverList, x *session, t terms, owner, token string, sent time.Time) *lockKeeper {
	k := &lockKeeper{loss: newLoss(), servers: servers, key: t.key, owner: owner, token: token, start: sent, x: x}
	if t.mode == "READ" || t.mode == "WRITE" {
		k.mode = []any{t.mode}
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	k.check(ctx)
	k.tasks.Go(guard.Func(nil, "keep a lock", func() { k.keep(ctx) }))
	k.tasks.Go(guard.Func(nil, "wait for a loss", func() { k.watch(ctx) }))
	return k
}

func (k *lockKeeper) fence() string { return k.token }

func (k *lockKeeper) validUntil() time.Time { return k.start.Add(time.Duration(k.until.Load())) }

// keep checks the lock until it is lost or ctx ends.
func (k *lockKeeper) keep(ctx context.Context) {
	for sleep(ctx, checkEvery) {
		if k.check(ctx) {
			continue
		}
		if !k.attach(ctx) {
			return
		}
	}
}

// check learns how long the lock is certain. It returns false when this connection does not say.
func (k *lockKeeper) check(ctx context.Context) bool {
	asked := time.Now()
	// The end of the keeper does not interrupt it, so that release can use the connection.
	reply, err := k.x.do(context.WithoutCancel(ctx), connectTime, "LOCK.TTL", k.key, "TOKEN", k.token)
	left, ok := reply.(int64)
	if err != nil || !ok || left < 0 {
		return false
	}
	k.until.Store(int64(asked.Sub(k.start) + time.Duration(left)*time.Millisecond))
	return true
}

// attach moves the lock to a new connection, of any Leash, while it is certain. It returns false
// when it is lost or ctx has ended.
func (k *lockKeeper) attach(ctx context.Context) bool {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, checkEvery) {
		k.x.close()
		x, err := k.servers.open(ctx)
		if err == nil {
			k.x = x
			args := append([]any{"LOCK.ATTACH", k.key, "OWNER", k.owner, "TOKEN", k.token}, k.mode...)
			_, err = x.do(ctx, answerTime, args...)
		}
		var reply redis.Error
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && k.check(ctx):
			return true
		case errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "LOCKNOTHELD"):
			k.tell("gone")
			return false
		case time.Now().After(k.validUntil()):
			k.tell("no Leash renewed it in time")
			return false
		}
		if !sleep(ctx, pause) {
			return false
		}
	}
}

// watch waits for the news that the lock is lost, on a connection of its own.
func (k *lockKeeper) watch(ctx context.Context) {
	for sleep(ctx, 0) {
		x, err := k.servers.open(ctx)
		if err == nil {
			var reply any
			reply, err = x.do(ctx, 0, "LOCK.AWAITLOSS", k.key, "TOKEN", k.token, "BLOCK", 0)
			x.close()
			if reason, ok := reply.(string); ok && err == nil {
				k.tell(reason)
				return
			}
		}
		if errors.Is(err, redis.Nil) || !sleep(ctx, checkEvery) { // it was released
			return
		}
	}
}

// release also ends both goroutines.
func (k *lockKeeper) release(limit time.Duration) error {
	k.stop()
	k.tasks.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for x, err := k.x, error(nil); ; x, err = k.servers.open(ctx) {
		if err == nil {
			_, err = x.do(ctx, answerTime, append([]any{"LOCK.RELEASE", k.key, "TOKEN", k.token, "ALL"}, k.mode...)...)
			x.close()
		}
		if err == nil || !isTransient(err) || !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
}
