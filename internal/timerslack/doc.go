// Package timerslack keeps the monitor thread of the Go runtime from using too much CPU.
//
// While any goroutine runs, that thread (runtime.sysmon) wakes up every 20 µs. It looks for a
// goroutine to preempt and for threads that hang in system calls. When Leash renews locks or has
// few clients, it wakes up for a few µs some thousand times a second. The monitor thread then used
// 20 to 30 % of all CPU.
//
// Linux may wake a thread later than it asked for, by the thread's timer slack. With a slack of
// 1 ms, the monitor wakes up a thousand times a second. The price: a goroutine is preempted after
// 11 ms instead of 10. A goroutine in a system call gives its processor away after 1 ms instead of
// 0.02 ms. That only matters for writes to the log, since Leash uses nothing else but sockets.
//
// Threads that the runtime started before main have the wide slack too, and so have the threads
// that they start. Their timers may be up to 1 ms late. Go rounds its waits for sockets and timers
// to that anyway.
//
// A thread can only set its own slack. It passes the slack on to threads that it starts, and to a
// program that it executes. The monitor thread starts before any code of ours. So the program sets
// the slack and then executes itself again.
package timerslack
