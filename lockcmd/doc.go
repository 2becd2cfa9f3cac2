// Package lockcmd answers LOCK.*, SEM.* and LATCH.*. It parses their arguments, runs Lua scripts in
// Redis, keeps the holds of this Leash, lets commands wait, and writes the replies.
//
// docs/design.md shows the path of LOCK.ACQUIRE in pictures. It also has the rules R1 to R32, which
// comments and tests cite, and a glossary.
//
// # Types
//
// A [Service] is all locks of one Leash. Each client connection that uses locks gets a [Carrier],
// because a hold depends on a connection. [Carrier.Do] runs one command. [Carrier.End] settles what
// the connection leaves behind. The connection itself is known only as [Host] and [Silence].
//
// Inside the package:
//
//	hold.Hold           a lock that somebody has through this Leash       hold/hold.go
//	mode                plain, FAIR, READ, WRITE or permit                script/mode.go
//	record              what Redis keeps of a hold                        script/record.go
//	acquire.Acquirer    obtains locks and permits, one or several         acquire/acquirer.go
//	wait.Machine        lets commands wait                                wait/machine.go
//	release.Releaser    ends holds and gives counts back                  release/releaser.go
//	restore.Restorer    renews, extends, finds, writes back, moves holds  restore/restorer.go
//	view.Viewer         shows holds, locks and figures                    view/viewer.go
//	view.Recorder       counts what happens to holds, tells observers     view/recorder.go
//	script.Client       runs the Lua scripts, by a typed function each    script/client.go
//
// Lua scripts make all changes, at Redisson's own keys, so that Java programs contend for the same
// locks (script/record.go). An acquire that nobody disputes takes one call, and so does its
// release. Counters and latches (counter.go) have no owners, so there are no holds of them, and
// nothing is repeated or undone.
//
// If a script was sent and no reply came, nobody knows whether it ran. It is repeated until Redis
// answers (script/transport/call.go). What stays unknown for too long is undone
// (acquire/request.go), and the client gets LOCKTIMEOUT. A hold that may have ended counts as lost
// for its holder, and as held for everybody else.
//
// # How a hold ends, and who is told
//
//	hold/state.go, hold/change.go     what each event does in each state of a hold
//	afterwards.go                     what follows from that and needs Redis
//	release.go, release/request.go    the owner releases it on this Leash
//	release/remote.go                 ... on another Leash
//	hold/carrier.go                   its connection has ended
//	hold/loss.go                      it is lost: the connection is closed, or gets LOCKLOST
//	command.go                        which command is answered with LOCKLOST
//	restore/tombstone.go              why Redis does not have the hold
//	hold/limits.go, afterwards.go     MAXHOLD or IDLE is over
//	release/break.go                  LOCK.BREAK
//	release/broken.go                 ... and what the Leash of the hold does then
//	hold/validity.go                  its LEASE is over
//	hold/notices.go                   pushes (LOCK.NOTIFY)
//	events.go, hold/watch.go          commands that wait for the end of a hold
//	events.go                         messages of other Leashes
//
// # Concurrency
//
// Everything is safe for concurrent use, but a Carrier runs one command at a time. Mutexes are
// locked in this order: that of a hold.Carrier, of wait.Queues, of the hold.Registry, of the
// watchdog. Those of the package event, of its tasks, of limits and of pending moves come last. No
// mutex is held during a script, a log line or a call of a Host.
package lockcmd
