package upstream

import "sync"

// Lane is how an upstream connection is set up. Sessions of one lane share links, because a server
// cannot tell them apart. The zero Lane is that of a new connection: the default user without
// credentials, database 0, RESP2.
type Lane struct {
	User  string // empty: no AUTH is sent, so Redis uses its default user
	RESP3 bool   // replies are in RESP3
	DB    int    // the database; 0 on a cluster

	// Scripts is set for the connections that only Leash's own lock scripts
	// use (Upstream.Script), so that they do not wait behind sessions' calls.
	Scripts bool
	// Bulk is set beside it where they are sent many at once (Upstream.Scripts).
	Bulk bool

	// Replica is set for connections on which a replica is read from. They are
	// in no session's lane, but belong to the one that is the same without it.
	Replica bool
}

// reading is the lane's side for reads from replicas.
func (l Lane) reading() Lane {
	l.Replica = true
	return l
}

// As is the lane with another user.
func (l Lane) As(user string) Lane {
	l.User = user
	return l
}

// fresh reports whether the lane is that of a client that has only connected or sent HELLO 3. Its
// links are kept without sessions.
func (l Lane) fresh() bool { return l.User == "" && l.DB == 0 }

// credentials keeps the password that Redis accepted last for each user, for
// the dials of the lane. Safe for concurrent use.
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
