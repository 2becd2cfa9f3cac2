package lockcmd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

const (
	semAcquireName = "SEM.ACQUIRE"
	semReleaseName = "SEM.RELEASE"
)

// maxCountOption is how many permits one ACQUIRE may take: a script must be short.
const maxCountOption = 1000

// acquirePermits runs SEM.ACQUIRE.
func (c *Carrier) acquirePermits(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	opts, count, msg := s.parsePermitOptions(args)
	opts.db = c.db
	switch {
	case msg != "":
		return appendError(dst, msg)
	case c.grantsNothing():
		return appendError(dst, msgDraining)
	}
	if full := s.nameLimit(max(count, 1), opts.key); full != "" {
		return appendError(dst, full)
	}
	s.awaitRenewals(ctx)
	a := c.newPermitAcquisition(opts, max(count, 1))
	if opts.id != "" && a.hasPendingRequest() {
		return c.timeout(dst, msgRefused)
	}
	wt := wait.Wait[result]{Queue: permitQueue(opts.lock()), Request: a, Turns: script.Permit, End: endOf(opts.block)}
	first := opts.id != "" && s.waits.Waiting(wt.Queue) && a.mayExist(ctx)
	r := c.attemptOrWait(ctx, wt, wait.Position{}, opts.wait, first)
	a.copyPending = a.copyPending || r.copyPending
	if r.kind == granted {
		switch msg := a.accept(ctx, r); {
		case msg == "":
			return appendPermits(dst, a.permits, count > 0)
		case msg == msgShort, msg == msgGone, msg == msgRefused:
			return c.timeout(dst, msg)
		default:
			return appendError(dst, msg)
		}
	}
	if a.copyPending || r.kind == unknown || len(a.moved) > 0 {
		a.undo()
	}
	if r.kind == unknown {
		r.text = msgTimeout
	}
	return c.replyTaken(dst, r, resp.NilBulk)
}

// parsePermitOptions reads the arguments of SEM.ACQUIRE. count is 0 without COUNT.
func (s *Service) parsePermitOptions(args [][]byte) (opts acquireOptions, count int64, msg string) {
	key, o, msg := s.parse(semAcquireName, args, permitWords)
	if msg == "" {
		opts, msg = s.acquireOptionsOf(semAcquireName, o)
	}
	opts.key, opts.mode = key, script.Permit
	return opts, o.count, msg
}

// mayExist reports whether Redis has the permits of the ID, so that this command repeats an earlier
// one. Without an answer from Redis it reports true. All other commands wait behind the present
// waiters.
func (a *permitAcquisition) mayExist(ctx context.Context) bool {
	s := a.carrier.service
	ctx, cancel := context.WithDeadline(ctx, s.deadline())
	defer cancel()
	has, err := s.redis.HasPermit(ctx, a.options.lock(), a.permits[0])
	return err != nil || has
}

// hasPendingRequest reports whether a release or a move of one of the permits is still in progress,
// which this connection took under the same ID.
func (a *permitAcquisition) hasPendingRequest() bool {
	until := a.carrier.service.deadline()
	for _, p := range a.permits {
		if !a.carrier.awaitMoves(a.options.lock(), script.Permit, p, until) {
			return true
		}
		if h := a.carrier.Newest(a.options.lock(), isPermit(p)); h != nil && h.State() != hold.Held {
			return true
		}
	}
	return false
}

func appendPermits(dst []byte, permits []string, list bool) []byte {
	if list {
		dst = appendArray(dst, len(permits))
	}
	for _, p := range permits {
		dst = appendBulk(dst, p)
	}
	return dst
}

// releasePermits runs SEM.RELEASE.
func (c *Carrier) releasePermits(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if len(args) < 2 {
		return appendError(dst, msgArity(semReleaseName))
	}
	lock := c.id(string(args[1]))
	var permits []string
	for _, arg := range args[2:] {
		p, ok := parsePermit(arg)
		if !ok {
			return appendError(dst, msgPermit)
		}
		permits = append(permits, p)
	}
	if msg := s.keyError(lock.Key); msg != "" {
		return appendError(dst, msg)
	}
	if len(permits) == 0 {
		h := c.NewestReported(lock, isPermit(""))
		if h == nil {
			return appendError(dst, msgNoPermit)
		}
		permits = []string{h.Owner()}
	}
	given, until := int64(0), s.deadline()
	for _, p := range permits {
		switch ok, lost, err := c.releasePermit(lock, p, until); {
		case err != nil:
			return c.replyError(dst, err, msgReleaseLater)
		case lost != "":
			return appendError(dst, lost)
		case ok:
			given++
		}
	}
	if given == 0 {
		return appendError(dst, msgNoPermit)
	}
	return appendInt(dst, given)
}

// releasePermit gives one permit back, whoever holds it. If this connection has lost it, lost is
// the error to answer.
func (c *Carrier) releasePermit(lock script.Lock, id string, until time.Time) (given bool, lost string, err error) {
	s := c.service
	h := s.holds.Find(lock, isPermit(id))
	if h == nil {
		given, err = s.releaser.ReleasePermit(lock, id, until)
		return given, "", err
	}
	code, lost, err := s.releaser.Release(h, true, until)
	if lost != "" && h.Carrier == &c.Carrier {
		return false, c.lossText(h, lost), err
	}
	return code == script.HoldEnded, "", err
}

const permitSize = 16 // bytes

// newPermits returns n permits: those that belong to an ID, always the same, or new ones.
func newPermits(key, id string, n int64) []string {
	permits := make([]string, n)
	for i := range permits {
		var raw [permitSize]byte
		if id == "" {
			rand.Read(raw[:]) // never fails
		} else {
			sum := sha256.Sum256([]byte(key + "\x00" + id + "\x00" + strconv.Itoa(i)))
			copy(raw[:], sum[:])
		}
		permits[i] = hex.EncodeToString(raw[:])
	}
	return permits
}

// parsePermit reads a permit.
func parsePermit(b []byte) (permit string, ok bool) {
	raw, err := hex.DecodeString(string(b[:min(len(b), 2*permitSize+1)]))
	if err != nil || len(raw) != permitSize {
		return "", false
	}
	return hex.EncodeToString(raw), true
}

// isPermit matches the hold of one permit, or of any if permitID is "".
func isPermit(permitID string) func(*hold.Hold) bool {
	return func(h *hold.Hold) bool { return h.Mode() == script.Permit && (permitID == "" || h.IsOf(permitID)) }
}
