package upstream

import "sync"

// Lane is how an upstream connection is set up. Sessions of one lane share links, because a server
// cannot tell them apart. The zero Lane is that of a new connection: the default user without
// credentials, database 0, RESP2.
type Lane struct {
	User  string // empty: no AUTH is sent, so Redis uses its default user
	RESP3 bool   // replies are in RESP3
	DB    int    // the database; 0 on a cluster

	// Scripts is set for connections that only Leash's own lock scripts use (Upstream.Script). The
	// scripts then need not wait for sessions' calls.
	Scripts bool
	// Bulk is set together with Scripts for many scripts at once (Upstream.Scripts).
	Bulk bool

	// Replica is set for connections for reads from a replica. No session has such a lane. The
	// connections belong to the lane that is equal except for Replica.
	Replica bool
}

// reading returns the lane for reads from replicas.
func (l Lane) reading() Lane {
	l.Replica = true
	return l
}

// As returns the lane with another user.
func (l Lane) As(user string) Lane {
	l.User = user
	return l
}

// fresh reports whether the lane is that of a client that has only connected or sent HELLO 3. Its
// links stay open without sessions.
func (l Lane) fresh() bool { return l.User == "" && l.DB == 0 }

// credentials keeps for each user the password that Redis accepted last, for later dials. Safe for
// concurrent use.
type credentials struct {
	mu        sync.Mutex
	passwords map[string][]byte
}

func (c *credentials) set(user string, password []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passwords == nil {
		c.passwords = make(map[string][]byte)
	}
	c.passwords[user] = append([]byte{}, password...)
}

func (c *credentials) get(user string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passwords[user]
}

func (c *credentials) forget(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.passwords, user)
}
