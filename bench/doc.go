// Bench compares Leash with direct access to Redis and with other proxies, in one run on one
// machine.
//
//	go run ./bench                                                   everything, about two minutes
//	go run ./bench --only redis,leash --leash-flags '--threads 1' --leash-flags '--threads 2'
//	go run ./bench --gobench --rounds 10 >new.txt                    for benchstat
//	go run ./bench locks                                             the locks, about five minutes
//	go run ./bench watchdog                                          a million locks kept, some ten minutes
//	go run ./bench detection                                         holders that are gone, about five minutes
//	go run ./bench stalls                                            reads beside a paused write and a slow script, half a minute
//
// It starts a Redis and a cluster of three masters, builds and starts Leash before each, starts
// nutcracker (twemproxy) before the Redis where it is installed, and puts the same load on each in
// turn, several rounds of it, so that a disturbance of the machine meets all of them. Everything it
// started has ended when it ends.
//
// # The load
//
// A number of clients, each on a connection of its own, send a batch (one command, or a pipeline),
// wait for all its replies, and send the next. Commands are SET and GET of keys of their own, so
// each byte of each reply is known in advance, and is checked: a wrong, lost or shifted reply ends
// the run. The latency of a batch counts from its write to its last reply.
//
// All clients share one thread that waits by epoll and makes the socket calls itself.
// redis-benchmark does the same, but checks no reply and knows no end but a number of commands; and
// a goroutine for each client would cost about as much as the proxy that is measured, on cores that
// they share.
//
// Directly to the cluster, each client talks to one node about keys of that node, as the
// connections of a cluster client do.
//
// # The figures
//
// Each is the median of the rounds. CPU is the time that the kernel has counted for a process, all
// threads of it, in its own mode and in the kernel's, between the first and the last moment that
// was measured.
//
// # Locks
//
// The rows of "bench locks" are said by its --help. Their clients share the one thread, too, and
// check what they are told: a pair must bring a token and end its hold, and in a race nobody may be
// granted what another holds. What goes to Redis without Leash is what Leash itself was seen to
// send, by MONITOR, with other keys and the tokens that come back. Libraries run in processes of
// their own (bench/peers, bench/redisson), which stay from round to round, and do what their
// documentation shows: redsync and redislock give a lock of 30 s that nobody renews, Redisson and
// Leash renew.
//
// The share "of scripts" is the median of each round's own, for what disturbs a round meets both.
// CPU is for a pair or a grant.
package main
