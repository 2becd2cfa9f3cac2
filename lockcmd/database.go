package lockcmd

import "leash/lockcmd/script"

// lockID identifies a lock on this Leash. The same key in two databases is two locks (R8). They
// share one channel, because Redis's channels have no databases. A message about one of them also
// wakes the waiters of the other, which attempt once and wait on.
type lockID struct {
	db  int
	key string
}

// Select sets the database for the locks of the carrier's next commands; it is 0 at first. Holds
// stay in their database. Do not call it during a Do.
func (c *Carrier) Select(db int) { c.db = db }

// inRedis is the lock for a call of a script.
func (lock lockID) inRedis() script.Lock { return script.Lock{DB: lock.db, Key: lock.key} }

// id is the lock of key in the carrier's database.
func (c *Carrier) id(key string) lockID { return lockID{c.db, key} }
