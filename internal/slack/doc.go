// Package slack keeps the Go runtime's monitor thread from taking more than its work is worth.
//
// While any goroutine has run lately, that thread (runtime.sysmon) looks every 20 µs whether one
// must be preempted, or hangs in a system call. In a program that is woken for a few µs some
// thousand times a second, as Leash is when it renews locks or has few clients, that was 20 to 30 %
// of all CPU. Linux lets a thread be woken later than it asked for, by its timer slack. With one of
// 1 ms the monitor looks a thousand times a second: a goroutine is preempted after 11 ms rather
// than 10, and one in a system call gives its turn away after 1 ms rather than 0.02, which a
// program waits for that reads and writes nothing but sockets only when it writes its log.
//
// Threads that the runtime had started before main, and those that they start, have the wide slack
// too: a timer may be up to 1 ms late there, which is what Go rounds its waiting for sockets and
// timers to in any case.
//
// A thread can set its own slack alone, but hands it on to those that it starts, and to the program
// that it executes; the monitor is started before any code of ours. So the program sets it and
// executes itself.
package slack
