package lockcmd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
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
		ok, msg := c.releasePermit(lock, p, until)
		if msg != "" {
			return appendError(dst, msg)
		}
		if ok {
			given++
		}
	}
	if given == 0 {
		return appendError(dst, msgNoPermit)
	}
	return appendInt(dst, given)
}

// releasePermit gives one permit back, whoever holds it. A nonempty message is the error to answer.
func (c *Carrier) releasePermit(lock script.Lock, id string, until time.Time) (given bool, msg string) {
	h := c.service.holds.Find(lock, isPermit(id))
	if h == nil {
		return c.service.revokePermit(lock, id, until)
	}
	code, lost, msg := c.releaseHere(h, true, until)
	if lost != "" && h.Carrier == &c.Carrier {
		msg = c.lossText(h, lost)
	}
	return code == script.HoldEnded, msg
}

// revokePermit releases a permit that another Leash carries. It reads who the carrier is, calls
// the script with that, and starts again if it has changed (R13).
func (s *Service) revokePermit(lock script.Lock, id string, until time.Time) (given bool, msg string) {
	args := &script.PermitRevokeArgs{Permit: id, Hold: script.Ref{Lock: lock}}
	for range 16 {
		r, err := s.redis.RevokePermit(args, until)
		switch {
		case err != nil:
			return s.revokeLater(args, err)
		case r.Given, !r.Changed && args.Unknown:
			s.stats.releases.Add(1)
			return true, ""
		case !r.Changed:
			return false, ""
		}
		args.Hold, args.Keep = r.Hold, max(r.TTL, s.cfg.WatchdogTimeout)
		args.Event = event.Text(event.Released, r.Hold.Token, r.Hold.Carrier, lock.Key)
	}
	return false, msgRefused
}

// revokeLater answers for a failed release. A release of unknown outcome is repeated (R26).
func (s *Service) revokeLater(args *script.PermitRevokeArgs, err error) (given bool, msg string) {
	switch {
	case errors.Is(err, transport.ErrUnknown):
		s.stats.timeouts.Add(1)
		limit := time.Now().Add(s.cfg.WatchdogTimeout)
		s.spawn(func() {
			s.redis.Repeat(limit, func(until time.Time) error {
				_, err := s.redis.RevokePermit(args, until)
				return err
			})
		})
		return false, msgReleaseLater
	case errors.Is(err, transport.ErrRefused):
		s.stats.timeouts.Add(1)
		return false, msgRefused
	}
	return false, transport.ErrorText(err)
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
