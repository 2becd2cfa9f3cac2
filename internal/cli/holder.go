package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// terms are what a command asks for.
type terms struct {
	key     string
	mode    string // "", READ, WRITE or FAIR
	permits int    // permits of a semaphore; 0 for a lock
	block   bool   // wait if it is taken
	// how long to wait; 0 is without end
	wait time.Duration
}

// holder is a lock, or permits, that this process has. Its methods are safe for concurrent use.
type holder interface {
	// fence is the fencing token, "" for permits.
	fence() string
	// validUntil is how long nobody else can have it, as far as is known now. It grows while the
	// connection to Leash lives.
	validUntil() time.Time
	// lost is closed when it is not ours any more. lossReason is why.
	lost() <-chan struct{}
	lossReason() string
	// release gives it back and ends all that belongs to the holder. It takes as long as Leash
	// needs, but hardly longer than limit.
	release(limit time.Duration) error
}

// errTaken is the error when somebody else has the lock.
var errTaken = errors.New("taken")

// acquire takes a lock or permits. The error is errTaken, errUnreachable, ctx's, or the reply of
// Leash. While it may wait, a Leash that is gone is replaced by the next one.
// say gets the first error that it waits out.
func acquire(ctx context.Context, servers *serverList, t terms, say func(error)) (holder, error) {
	var end time.Time
	if t.block && t.wait > 0 {
		end = time.Now().Add(t.wait)
	}
	id := newID()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		h, err := tryAcquire(ctx, servers, t, id, end)
		if err == nil || ctx.Err() != nil || !t.block || !isTransient(err) {
			return h, err
		}
		if !end.IsZero() && time.Until(end) < pause {
			return nil, err
		}
		if say != nil {
			say(err)
			say = nil
		}
		if !sleep(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// tryAcquire sends one request. Because of the id, a repeated one is granted once.
func tryAcquire(ctx context.Context, servers *serverList, t terms, id string, end time.Time) (holder, error) {
	x, err := servers.open(ctx)
	if err != nil {
		return nil, err
	}
	limit := answerTime
	args := t.command(id)
	if t.block {
		block := int64(0)
		if limit = 0; !end.IsZero() {
			block = max(time.Until(end).Milliseconds(), 1)
			limit = time.Until(end) + answerTime
		}
		args = append(args, "BLOCK", block)
	}
	sent := time.Now()
	reply, err := x.do(ctx, limit, args...)
	if err == nil {
		if t.permits > 0 {
			return holdPermits(x, t.key, reply)
		}
		token, ok := reply.(int64)
		if ok {
			return keepLock(servers, x, t, id, strconv.FormatInt(token, 10), sent), nil
		}
		err = fmt.Errorf("unexpected reply %v", reply)
	}
	x.close()
	if errors.Is(err, redis.Nil) {
		return nil, errTaken
	}
	return nil, err
}

// command is the request without BLOCK.
func (t terms) command(id string) []any {
	if t.permits > 0 {
		return []any{"SEM.ACQUIRE", t.key, "COUNT", t.permits, "ID", id}
	}
	args := []any{"LOCK.ACQUIRE", t.key, "OWNER", id, "ID", id, "ONCLOSE", "EXPIRE"}
	if t.mode != "" {
		args = append(args, t.mode)
	}
	return args
}

// isTransient reports whether the same request may work later, at this Leash or another one.
func isTransient(err error) bool {
	var exit *exitError
	if errors.Is(err, errTaken) || errors.As(err, &exit) && exit.status == exitUsage {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) { // the connection broke
		return true
	}
	text := reply.Error()
	return strings.HasPrefix(text, "LOCKTIMEOUT") || strings.HasPrefix(text, "UPSTREAM") ||
		strings.Contains(text, "shutting down")
}

// newID is a random name for an owner or a request.
func newID() string { return "program:" + rand.Text() }

// sleep waits. It returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// loss is told once.
type loss struct {
	once   sync.Once
	told   chan struct{}
	reason string
}

func newLoss() *loss { return &loss{told: make(chan struct{})} }

// tell reports the loss; only the first one counts.
func (l *loss) tell(reason string) {
	l.once.Do(func() {
		l.reason = reason
		close(l.told)
	})
}

func (l *loss) lost() <-chan struct{} { return l.told }

// lossReason must be called after told was closed.
func (l *loss) lossReason() string { return l.reason }
