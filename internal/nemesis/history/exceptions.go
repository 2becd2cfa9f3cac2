package history

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"leash/renewal"
)

// Some events may end a hold early, and the check excepts that: Redis forgot the lock (interval),
// or a clock was stepped forward (clockStep).
//
// Redis stores the end of a lock as a time of its own clock. When that clock is stepped forward by
// d, every lock there has d less left. A lock with no more than d left expires at once. The same
// happens when a replica whose clock is ahead by d becomes the master, because replicas store the
// same end. Leash cannot know of it before it asks Redis. Then Leash tells the holder. Only this is
// excepted:
//
//   - A hold that this server had at the time of the step, and that was granted before the step was
//     over. The end of a later grant is set by the new clock. A renewal that finds the lock sets
//     its end by the new clock as well. After that the step has no effect.
//   - By at most d, and not to a time before the step. Leash and its client believe in a hold for
//     no longer than Redis would have kept it without the step (R25, R1). A third of a TTL passes
//     until Leash asks. A client that cannot be told then has half a TTL left. With the step, Redis
//     keeps the lock for d less. A step forward and the same step back cancel out (shortenedBy).
//   - Until the client must have been told, or must have given the hold up. That is a TTL after the
//     step, because every end that was set before the step has passed then.
//   - Not for a step within the margin that Leash takes off the TTL (renewal.Until), if the hold is
//     renewed. For a lease such a step is excepted too, by as little. The client counts the lease
//     itself, up to its end.
//
// A clock that is stepped back by d ends no hold, but the locks there last for d longer. That does
// no harm to a client that believes in its hold. A lock without a holder may stay for its TTL or
// lease, the usual slack, and d. That is so only if its end was set before the step (lengthenedBy).
// Every clock is set right in the end. So a clock that was ahead by d is stepped back by d.
//
// A step must not make a token fall. Tokens count on from the last one, unless Redis forgets the
// last one while its clock is behind what it was (withHigherTokens). A step does not change what
// Nemesis or Leash measure by a monotonic clock: waits and their ends, MAXHOLD, IDLE.

// ReportTolerance is how late a client may be told of a loss. Time in which something was broken is
// added to it.
const ReportTolerance = time.Second

// shortened counts beliefs that ended early.
type shortened struct {
	forgotten, stepped int
}

// withExceptions returns ops on key, with earlier ends of some holds. Redis may have forgotten
// these holds, or a clock may have ended them. n says how many they are. A hold is excepted for a
// short time only. Leash finds the loss at the next renewal and tells the client. A client that
// cannot be told stops believing by itself.
func (h *History) withExceptions(key string, ops []porcupine.Operation) (out []porcupine.Operation, n shortened) {
	out = append([]porcupine.Operation(nil), ops...)
	granted, holds := make(map[int]int64), make(map[int]*RedisHold)
	for _, o := range ops {
		if in := o.Input.(Op); in.Action == Grant {
			granted[in.Hold] = o.Call
		}
	}
	for _, k := range h.redisHolds {
		holds[k.Hold] = k
	}
	for i, o := range out {
		in := o.Input.(Op)
		if in.Action != End {
			continue
		}
		k := holds[in.Hold]
		if at := h.forgottenEnd(key, k, granted[in.Hold], o.Call); at < out[i].Call {
			out[i].Call = at
			n.forgotten++
		}
		if at := h.steppedEnd(key, k, granted[in.Hold], o.Call); at < out[i].Call {
			out[i].Call = at
			n.stepped++
		}
	}
	return out, n
}

// forgottenEnd returns when Redis may have forgotten a hold that its client believed in from
// granted to ended. It returns ended if Redis cannot have forgotten it.
func (h *History) forgottenEnd(key string, k *RedisHold, granted, ended int64) int64 {
	at := ended
	for _, f := range h.forgets {
		switch {
		case f.reported && (k == nil || !k.ErrorOnLoss):
			// The client was told. One with ONLOSS ERROR is not told before it asks.
			continue
		case f.key != "" && f.key != key, granted > f.to, ended < f.from:
			continue
		case f.failover && k != nil && k.Replicas:
			continue
		case k != nil && ended > h.latestReport(f, k):
			continue
		}
		at = min(at, max(f.from, granted))
	}
	return at
}

// steppedEnd returns when a step of the clock may have ended a hold that its client believed in
// from granted to ended. It returns ended if no step can have ended it.
func (h *History) steppedEnd(key string, k *RedisHold, granted, ended int64) int64 {
	if k == nil {
		return ended
	}
	h.mu.Lock()
	steps := h.stepsLocked(key, granted, ended)
	h.mu.Unlock()
	// A step counts only until the client must have been told, whatever was broken.
	for len(steps) > 0 && ended > steps[0].to+int64(k.Base+ReportTolerance) {
		steps = steps[1:]
	}
	by, since := shortenedBy(steps)
	now := time.Now()
	if held := now.Add(k.Base).Sub(renewal.Until(now, k.Base)); by == 0 || by <= held && !k.Lease {
		return ended
	}
	return max(since, granted, ended-int64(by))
}

// latestReport returns when the client of a forgotten hold must have been told, or must have
// stopped believing in it.
func (h *History) latestReport(f *interval, k *RedisHold) int64 {
	to := h.start.Add(time.Duration(f.to))
	limit := to.Add(k.Base*3/2 + ReportTolerance)
	return h.At(limit.Add(h.Faults.Disturbed(to, limit)))
}

// withHigherTokens returns ops with higher tokens after Redis forgot the token counter. It adds the
// time by which the clock had gone back until then, because Leash then makes tokens from that clock
// alone (R6). It leaves out grants of the time in which Redis forgot the counter. changed is false
// if Redis never forgot the counter while the clock was back.
func (h *History) withHigherTokens(key string, ops []porcupine.Operation) (out []porcupine.Operation, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out = append(out, ops...)
	for _, f := range h.forgets {
		back := lengthenedBy(h.stepsLocked(key, 0, f.to))
		if f.key != "" || back == 0 { // LOCK.BREAK keeps the counter
			continue
		}
		changed = true
		out = slices.DeleteFunc(out, func(o porcupine.Operation) bool { return o.Call <= f.to && o.Return >= f.from })
		for i, o := range out {
			if in := o.Input.(Op); o.Call > f.to {
				in.Token += back.Microseconds()
				out[i].Input = in
			}
		}
	}
	return out, changed
}
