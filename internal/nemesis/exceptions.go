package main

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"leash/renewal"
)

// What may end a hold before its time, and is excepted: locks that Redis forgot (span), and clocks
// that were stepped forward (jump).
//
// Redis keeps for how long a lock lasts as a time of its own clock. So when that is stepped forward
// by d, every lock that is there has d less, and what has no more than d left is over at once. That
// is so, too, when a replica whose clock is ahead by d becomes the master, for it was told the time
// and not for how long. Nobody can know of it before he asks Redis, and then Leash tells its
// holder. What is excepted is this and no more:
//
//   - A hold of a lock that this server had then, granted before the step was over. One that is
//     granted afterwards is told its time by the new clock; and a renewal that finds the lock sets
//     that right, after which none of this can be seen.
//   - By d at most, and not to before the step. Leash and its client believe in a hold for no
//     longer than Redis, as told last, would have kept it (R25, R1): a third of a TTL passes until
//     Leash asks, and who cannot be told then has half of one left. Now Redis keeps it for d less.
//     Forward and back by the same is nothing (shorter).
//   - Until it must have been found out, told or given up: a TTL after the step, since what was
//     told to Redis before is over then.
//   - Not for a step within what Leash holds back of the TTL (renewal.Until), if the hold is
//     renewed. For a lease it is excepted, by as little, since its client counts that by itself and
//     to its end.
//
// A clock that is stepped back by d ends nothing, but what is there lasts for d longer. Nobody's
// belief is harmed by that. When nobody holds it any more it may stay for its time, the usual
// slack, and d; but only if it was told its time before the step (longer). As every clock is set
// right in the end, that is d after one that was ahead.
//
// No token may fall behind by it: they count on from the last one, unless that is forgotten while
// the clock is behind what it was (recounted). What is asked for by a monotonic clock, ours or
// Leash's, is as it was: waits and their ends, MAXHOLD, IDLE.

// reportTolerance is what a client that is told late of a loss may have been late by, beside what
// was broken.
const reportTolerance = time.Second

// shortened counts beliefs that ended early.
type shortened struct {
	forgotten, stepped int
}

// withExceptions is ops on key with the holds ended, as far as the models are concerned, when they
// may have been forgotten or a clock may have ended them, and how many were. Only for a time: Leash
// finds out at the next renewal and tells the client, and who cannot be told stops believing by
// itself.
func (h *history) withExceptions(key string, ops []porcupine.Operation) (out []porcupine.Operation, n shortened) {
	out = append([]porcupine.Operation(nil), ops...)
	granted, holds := make(map[int]int64), make(map[int]*kept)
	for _, o := range ops {
		if in := o.Input.(op); in.action == grant {
			granted[in.hold] = o.Call
		}
	}
	for _, k := range h.kept {
		holds[k.hold] = k
	}
	for i, o := range out {
		in := o.Input.(op)
		if in.action != end {
			continue
		}
		k := holds[in.hold]
		if at := h.forgotten(key, k, granted[in.hold], o.Call); at < out[i].Call {
			out[i].Call = at
			n.forgotten++
		}
		if at := h.cut(key, k, granted[in.hold], o.Call); at < out[i].Call {
			out[i].Call = at
			n.stepped++
		}
	}
	return out, n
}

// forgotten is when a hold, believed in between two times, may have been forgotten; the latter when
// it was not.
func (h *history) forgotten(key string, k *kept, granted, ended int64) int64 {
	at := ended
	for _, f := range h.forgets {
		switch {
		case f.told && (k == nil || !k.silent):
			// who hears only when he asks may end his belief before he has
			continue
		case f.key != "" && f.key != key, granted > f.to, ended < f.from:
			continue
		case f.failover && k != nil && k.replicas:
			continue
		case k != nil && ended > h.told(f, k):
			continue
		}
		at = min(at, max(f.from, granted))
	}
	return at
}

// cut is when a hold, believed in between two times, may have been over as its clock was stepped
// forward; the latter when it was not.
func (h *history) cut(key string, k *kept, granted, ended int64) int64 {
	if k == nil {
		return ended
	}
	h.mu.Lock()
	jumps := h.jumpsLocked(key, granted, ended)
	h.mu.Unlock()
	for len(jumps) > 0 && ended > jumps[0].to+int64(k.base+reportTolerance) { // whatever was broken
		jumps = jumps[1:]
	}
	by, since := shorter(jumps)
	now := time.Now()
	if held := now.Add(k.base).Sub(renewal.Until(now, k.base)); by == 0 || by <= held && !k.lease {
		return ended
	}
	return max(since, granted, ended-int64(by))
}

// told is when the client of a hold that was forgotten must have been told, or must have stopped
// believing.
func (h *history) told(f *interval, k *kept) int64 {
	to := h.start.Add(time.Duration(f.to))
	limit := to.Add(k.base*3/2 + reportTolerance)
	return h.at(limit.Add(h.faults.disturbed(to, limit)))
}

// recounted is ops with the tokens raised that were given after their counter was forgotten, by as
// much as its clock had gone back until then: Leash has nothing but that clock to go on from (R6).
// A grant in that very moment is left out. changed is false when there was no such moment.
func (h *history) recounted(key string, ops []porcupine.Operation) (out []porcupine.Operation, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out = append(out, ops...)
	for _, f := range h.forgets {
		back := longer(h.jumpsLocked(key, 0, f.to))
		if f.key != "" || back == 0 { // LOCK.BREAK leaves the counter
			continue
		}
		changed = true
		out = slices.DeleteFunc(out, func(o porcupine.Operation) bool { return o.Call <= f.to && o.Return >= f.from })
		for i, o := range out {
			if in := o.Input.(op); o.Call > f.to {
				in.token += back.Microseconds()
				out[i].Input = in
			}
		}
	}
	return out, changed
}
