package lockcmd

import (
	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// What the host of a carrier is and does is said in the package hold.
type (
	Client    = hold.Client
	Host      = hold.Host
	Silence   = hold.Silence
	Attention = hold.Attention
	Ending    = hold.Ending
)

// The constants of hold for hosts.
const (
	Relaxed     = hold.Relaxed
	Guarded     = hold.Guarded
	Waiting     = hold.Waiting
	Release     = hold.Release
	Expire      = hold.Expire
	ReasonMoved = hold.ReasonMoved
)

// Carrier is a connection as the locks see it.
type Carrier struct {
	acquire.Carrier
	service  *Service
	db       int  // database of the commands; owned by the caller of Do
	noGrants bool // see RefuseGrants; owned by the caller of Do
}

// NewCarrier makes the carrier of a connection. id names the connection in logs. A connection may
// have several carriers in a row (RESET). Each has its own name, because each counts its requests
// from 1 and their holds must not be confused.
func (s *Service) NewCarrier(id int64, client Client, h Host, silence Silence) *Carrier {
	c := &Carrier{service: s, Carrier: acquire.Carrier{Acquirer: s.acquirer}}
	c.Init(s.Holds, id, client, h, silence)
	return c
}

// Select sets the database for the locks of the carrier's next commands; it is 0 at first. Holds
// stay in their database. Do not call it during a Do.
func (c *Carrier) Select(db int) { c.db = db }

// RefuseGrants sets whether the carrier's next commands are granted no lock, as after Drain. Do not
// call it during a Do.
func (c *Carrier) RefuseGrants(refuse bool) { c.noGrants = refuse }

// grantsNothing reports whether the carrier's command must be granted no lock.
func (c *Carrier) grantsNothing() bool { return c.noGrants || c.service.Waits.Draining() }

// id is the lock of key in the carrier's database.
func (c *Carrier) id(key string) script.Lock { return script.Lock{DB: c.db, Key: key} }

// Answered reports that the client has got the reply of the last Do. Notices about the holds in
// that reply follow now. A Host that pushes must call it after each Do.
func (c *Carrier) Answered() {
	for _, h := range c.EndAnswer() {
		c.service.checkWanted(h)
	}
}
