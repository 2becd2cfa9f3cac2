package main

import (
	"math"

	"github.com/anishathalye/porcupine"
)

// A search for an order tries everything. A reader that is gone without a word may have let go of
// its lock at any time since, and one that waited has had it from some time within its wait on:
// with twenty of them beside each other there are a million states to try, and as all of them fit
// until something does not, the search does not end within a minute.
//
// Where all that a hold does is to keep others out, it need not be searched for: who fits beside a
// hold fits as well where that hold is shorter. So it is taken to begin as late, and to be over as
// early, as it may have. That changes no verdict:
//
//   - An order that fits the brief times fits the others, which they are part of.
//   - Of an order that fits the others, the end of a hold can be moved to the front, to the last of
//     what must come before it: to when it began, and to what its own client did with it. Nothing
//     of any other hold minds that it is gone. And its grant can be moved back, to the first of
//     what must come after it: who would be in its way there was so where it stood, or was let in
//     beside it, and those are let in by a model only if they do not mind whether it is there, but
//     for one kind.
//   - That is a reader with the owner of a writer, who is let in beside it, but not the writer
//     beside the reader. A writer is left alone, therefore, where there is such a reader.

// shortest is ops with each hold as brief as it may have been.
func shortest(ops []porcupine.Operation) []porcupine.Operation {
	// by hold, the last return of what its end comes after, the first call of what its grant comes
	// before
	before, after := make(map[int]int64), make(map[int]int64)
	readers := make(map[string]bool) // by owner
	for _, o := range ops {
		in := o.Input.(op)
		if in.action != end {
			before[in.hold] = max(before[in.hold], o.Return)
		}
		if first, any := after[in.hold]; in.action != grant && (!any || o.Call < first) {
			after[in.hold] = o.Call
		}
		if in.action == grant && in.mode == "read" && in.owner != "" {
			readers[in.owner] = true
		}
	}
	out := append([]porcupine.Operation(nil), ops...)
	for i, o := range ops {
		switch in := o.Input.(op); {
		case in.action == end:
			out[i].Return = min(o.Return, max(o.Call, before[in.hold]))
		case in.action == grant && (in.mode != "write" || !readers[in.owner]):
			first, any := after[in.hold]
			if !any {
				first = math.MaxInt64
			}
			out[i].Call = max(o.Call, min(o.Return, first))
		}
	}
	return out
}
