package lockcmd

import "github.com/redis/go-redis/v9"

// lockID is what a lock is known by on this Leash: the same key in two databases is two locks (R8).
// Their channel is one, since Redis's channels know no databases: a message of the one wakes the
// waiters of the other too, who look and wait on.
type lockID struct {
	db  int
	key string
}

// Select says in which database the following commands of the carrier find their locks; 0 at first.
// Holds stay where they were taken. Not while a Do is under way.
func (c *Carrier) Select(db int) { c.db = db }

// id is the lock of key in the carrier's database.
func (c *Carrier) id(key string) lockID { return lockID{c.db, key} }

// database is the client of a database.
func (s *Service) database(db int) redis.UniversalClient {
	if db == 0 || s.cfg.Database == nil {
		return s.rdb
	}
	return s.cfg.Database(db)
}
