// Package timeslice asks the kernel for short time slices.
//
// Leash works for some 20 µs at a time and then waits. If a Redis shares its cores, as in a
// sidecar, a thread that wakes up waits until the other one has used its slice: 1.4 ms on two
// cores, more on more cores. An acquire has four such wake-ups. Linux schedules a thread with
// shorter slices sooner, and gives it the same share of the CPU.
//
// Beside a million locks that are renewed, p99 of acquires was 1.19 ms with short slices and
// 1.89 ms without (8 measurements of 4 s, taken in turns).
package timeslice

import "time"

// Short is the shortest slice that Linux gives.
const Short = 100 * time.Microsecond
