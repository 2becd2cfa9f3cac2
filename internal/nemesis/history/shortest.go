package history

import (
	"math"

	"github.com/anishathalye/porcupine"
)

// The search for a valid order tries all orders. A reader that ended without a release may have
// ended at any later time. A reader that waited may have acquired its lock at any time of its wait.
// Twenty such readers at the same time have a million states. All of these states fit the model,
// until one operation does not. So the search does not end within a minute.
//
// The only effect of many holds is to keep others out. If another hold fits beside such a hold, it
// also fits beside a shorter one. So shortest moves the grant to its latest possible time, and the
// end to its earliest possible time. This changes no verdict:
//
//   - An order that fits the short times also fits the long times. The short times lie within the
//     long times.
//   - In an order that fits the long times, the end of a hold can move to an earlier place. It
//     moves to just after the last operation that must come before it. That is the grant, or
//     another operation of the same client on this hold. No other hold needs this hold.
//   - In such an order, the grant can move to a later place, just before the first operation that
//     must come after it. A hold that conflicts with it at the new place either conflicts at the
//     old place as well, or was granted beside it. A model grants a hold beside it only if the
//     order of the two grants does not matter, with one exception.
//   - The exception is a reader with the same owner as a writer. It is granted beside the writer,
//     but the writer is not granted beside the reader. So the grant of a writer does not move if
//     there is such a reader.

// shortest returns ops with each hold as short as it may have been.
func shortest(ops []porcupine.Operation) []porcupine.Operation {
	// before has the last return of the operations that come before the end of a hold. after has
	// the first call of the operations that come after its grant. The key of both is the hold.
	before, after := make(map[int]int64), make(map[int]int64)
	readers := make(map[string]bool) // the key is the owner
	for _, o := range ops {
		in := o.Input.(Op)
		if in.Action != End {
			before[in.Hold] = max(before[in.Hold], o.Return)
		}
		if first, any := after[in.Hold]; in.Action != Grant && (!any || o.Call < first) {
			after[in.Hold] = o.Call
		}
		if in.Action == Grant && in.Mode == "read" && in.Owner != "" {
			readers[in.Owner] = true
		}
	}
	out := append([]porcupine.Operation(nil), ops...)
	for i, o := range ops {
		switch in := o.Input.(Op); {
		case in.Action == End:
			out[i].Return = min(o.Return, max(o.Call, before[in.Hold]))
		case in.Action == Grant && (in.Mode != "write" || !readers[in.Owner]):
			first, any := after[in.Hold]
			if !any {
				first = math.MaxInt64
			}
			out[i].Call = max(o.Call, min(o.Return, first))
		}
	}
	return out
}
