// Bench compares Leash with direct access to Redis and with other proxies, in one run on one
// machine.
//
//	go run ./bench              everything, two minutes
//	go run ./bench --tls        Leash and HAProxy with TLS to the clients, two minutes
//	go run ./bench locks        the locks, five minutes
//	go run ./bench watchdog     a million holds that are renewed, ten minutes
//	go run ./bench detection    how long a dead holder keeps its lock, five minutes
//	go run ./bench fairness     contention between clients of several Leashes, five minutes
//	go run ./bench stalls       reads during a paused write and a slow script, half a minute
//	go run ./bench neighbour    one user beside another who sends too much, two minutes
//
//	go run ./bench --only redis,leash --leash-flags '--threads 1' --leash-flags '--threads 2'
//	go run ./bench --gobench --rounds 10 >new.txt    for benchstat
//
// It starts a Redis and a cluster of three masters, and builds and starts Leash in front of each.
// If nutcracker (twemproxy) is installed, it starts that in front of the Redis. Each target gets
// the same load in turn, for several rounds, so that a disturbance of the machine meets all of
// them. Everything that it started has ended when it ends.
//
// # The load
//
// Each client has a connection of its own. It sends a batch (one command or a pipeline), waits for
// all replies, and sends the next. Commands are SET and GET of the client's own keys. So each byte
// of each reply is known in advance, and is checked: a wrong, lost or shifted reply ends the run.
// The latency of a batch counts from its write to its last reply.
//
// All clients share one thread, which waits by epoll and makes the socket calls itself, as in
// redis-benchmark. A goroutine for each client would cost as much CPU as the proxy that is
// measured, on the same cores.
//
// In the direct rows of the cluster, each client talks to one node about keys of that node, as the
// connections of a cluster client do.
//
// With --tls, HAProxy ends TLS in front of the same Redis, in TCP mode and one thread. The load
// speaks TLS by Go's package, in the same thread.
//
// # The figures
//
// Each figure is the median of the rounds. CPU is what the kernel counted for all threads of a
// process, in user and in kernel mode, between the first and the last moment that was measured.
//
// # Locks
//
// "bench locks --help" describes its rows. Their clients share one thread too, and check the
// replies: a pair must bring a token and end its hold. In a race, no client may get what another
// one holds. The rows without Leash send to Redis what Leash itself sends, as MONITOR showed it,
// with other keys and the tokens that come back. Libraries run in processes of their own
// (bench/peers, bench/redisson) and do what their documentation shows. redsync and redislock take a
// lock of 30 s that is not renewed. Redisson and Leash renew.
//
// The share "of scripts" is the median of each round's own share, since a disturbance meets both
// sides of a round. CPU is for one pair or one grant.
package main
