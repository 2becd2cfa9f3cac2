package dial

import "cmp"

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

	// Rights is set for the connections on which Leash asks about the rights of users. They are not
	// those of sessions, where a slow command would delay the answer.
	Rights bool

	// Replica is set for connections for reads from a replica. No session has such a lane. The
	// connections belong to the lane that is equal except for Replica.
	Replica bool
}

// Reading returns the lane for reads from replicas.
func (l Lane) Reading() Lane {
	l.Replica = true
	return l
}

// As returns the lane with another user.
func (l Lane) As(user string) Lane {
	l.User = user
	return l
}

// ACLUser returns the user by whose rights Redis runs commands of the lane.
func (l Lane) ACLUser() string { return cmp.Or(l.User, "default") }

// Fresh reports whether the lane is that of a client that has only connected or sent HELLO 3. Its
// links stay open without sessions.
func (l Lane) Fresh() bool { return l.User == "" && l.DB == 0 }

// ServiceLane is the lane of Config.User, for sessions that may use it. Without a configured
// credential it is the lane of new connections.
func (d *Dialer) ServiceLane() Lane {
	if d.cfg.User == "" && d.cfg.Password == "" {
		return Lane{}
	}
	return Lane{User: d.ServiceUser()}
}

// ServiceUser is the ACL user of Leash's own connections.
func (d *Dialer) ServiceUser() string { return Lane{User: d.cfg.User}.ACLUser() }
