package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leash/internal/guard"
)

// permitKeeper is the holder of permits. They belong to its connection, and nobody knows how long
// they last after it has ended. So its end is the loss.
type permitKeeper struct {
	*loss
	key     string
	permits []any
	x       *session
	stop    context.CancelFunc
	task    sync.WaitGroup
}

// holdPermits begins to keep the permits that Leash granted on x.
func holdPermits(x *session, key string, reply any) (holder, error) {
	permits, ok := reply.([]any)
	if !ok || len(permits) == 0 {
		x.close()
		return nil, fmt.Errorf("unexpected reply %v", reply)
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &permitKeeper{loss: newLoss(), key: key, permits: permits, x: x, stop: stop}
	k.task.Go(guard.Func(nil, "keep permits", func() { k.keep(ctx) }))
	return k, nil
}

func (k *permitKeeper) fence() string { return "" }

func (k *permitKeeper) validUntil() time.Time { return time.Now().Add(time.Hour) }

// keep finds out when the connection has ended.
func (k *permitKeeper) keep(ctx context.Context) {
	for every := checkEvery / 4; sleep(ctx, every); {
		if _, err := k.x.do(context.WithoutCancel(ctx), connectTime, "PING"); err != nil {
			k.tell("the connection to Leash ended: " + err.Error())
			return
		}
	}
}

func (k *permitKeeper) release(limit time.Duration) error {
	k.stop()
	k.task.Wait()
	defer k.x.close()
	_, err := k.x.do(context.Background(), limit, append([]any{"SEM.RELEASE", k.key}, k.permits...)...)
	return err
}
