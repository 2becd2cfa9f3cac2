package main

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// tellSlack is what a client that is told late of a loss may have been late by, beside what was broken.
const tellSlack = time.Second

// excepting is ops on key with the holds ended, as far as the models are concerned, when they may have been forgotten, and how many were.
// Only for a time: Leash finds out at the next renewal and tells the client, and who cannot be told stops believing by itself.
func (h *history) excepting(key string, ops []porcupine.Operation) (out []porcupine.Operation, n int) {
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
		for _, f := range h.forgets {
			k := holds[in.hold]
			switch {
			case f.told, f.key != "" && f.key != key, granted[in.hold] > f.to, o.Call < f.from:
				continue
			case f.failover && k != nil && k.replicas:
				continue
			case k != nil && o.Call > h.told(f, k):
				continue
			}
			if at := max(f.from, granted[in.hold]); at < out[i].Call {
				out[i].Call = at
				n++
			}
		}
	}
	return out, n
}

// told is when the client of a hold that was forgotten must have been told, or must have stopped believing.
func (h *history) told(f *span, k *kept) int64 {
	to := h.start.Add(time.Duration(f.to))
	limit := to.Add(k.base*3/2 + tellSlack)
	return h.at(limit.Add(h.weather.rough(to, limit)))
}
