package config

func lockOptions(c *Config) []option {
	return []option{
		{name: "watchdog-timeout", value: duration("duration", &c.WatchdogTimeout), first: true,
			summary: "Time to live in Redis of a lock that Leash renews.",
			details: []string{
				"Leash renews such a lock every third of this time. " +
					"If Leash dies or cannot reach Redis, the lock ends within this time.",
				"Redisson has the same setting as `lockWatchdogTimeout`.",
			},
			limits: "1s to 24h"},
		{name: "on-disconnect", value: choice(&c.OnDisconnect, onDisconnects...), live: true,
			summary: "Release the locks of a connection that ends, or let them expire.",
			details: []string{
				"`release` releases them. `expire` lets them expire. " +
					"`auto` releases them when the client closed the connection. " +
					"It lets them expire when the connection broke, or when the client's host was unreachable.",
				"With `--proxy-protocol`, `auto` always lets them expire, " +
					"because a load balancer also closes a connection when it loses the client.",
				"A client that sends `QUIT` releases its locks with every setting. " +
					"A lock with `LEASE` or `ONCLOSE EXPIRE` expires with every setting. " +
					"The locks of a connection that Leash itself closes expire, too.",
			}},
		{name: "lock-publish", value: choice(&c.LockPublish, lockPublishes...),
			summary: "Which command wakes waiters of other processes: PUBLISH, SPUBLISH or both.",
			details: []string{
				"`plain` is `PUBLISH`. `sharded` is `SPUBLISH`, which needs Redis 7. " +
					"Redisson listens to sharded channels on a cluster. The default reaches all waiters.",
			}},
		{name: "token-ttl", value: duration("duration", &c.TokenTTL),
			summary: "How long Redis keeps the token counter of a lock after its last use.",
			details: []string{
				"0 keeps it without end. Use 0 if Redisson's `RFencedLock` uses locks with the same names.",
			},
			limits: "0, or `--watchdog-timeout` and more"},
		{name: "max-hold", value: duration("duration", &c.MaxHold), live: true,
			summary: "How long any lock may be held; 0 is no limit.",
			details: []string{
				"After that time Leash tells the holder that the lock is lost, and releases it. " +
					"`MAXHOLD` of `LOCK.ACQUIRE` sets the same for one lock. Permits of semaphores have no such limit.",
			},
			limits: "0, or 100ms to 8760h"},
		{name: "failover-grace", value: durationOr("auto", Auto, &c.FailoverGrace), first: true,
			summary: "How long a new Redis master grants no locks, so that no lock gets two holders.",
			details: []string{
				"A new master may not know the last locks of the old one. " +
					"During the grace period such a lock ends, or its Leash puts it back. " +
					"A restart of Redis begins a grace period, too.",
				"0 turns it off. `auto` is `--watchdog-timeout` plus the time for which an old master may still answer: " +
					"`cluster-node-timeout` on a cluster, else `min-replicas-max-lag`.",
				"All Leashes in front of one Redis must have the same value.",
			},
			limits: "0, auto, or `--watchdog-timeout` and more, up to 48h"},
		{name: "max-waiters", value: count("n", &c.MaxWaiters), live: true,
			summary: "How many commands can wait for locks, permits and latches at once.",
			details: []string{"One command more gets `LOCKLIMIT`."},
			limits:  "1 to 1000000"},
	}
}
