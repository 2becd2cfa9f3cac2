package lockcmd

import (
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// acquireOf is an acquire as the connection sends it to Redis, with the next number of the
// connection. Without an owner it gets a new one.
func (c *conn) acquireOf(m *script.Mode, key, owner string) *script.AcquireArgs {
	s, terms := c.carrier.service, script.Terms{Flags: script.Flags{Fair: m.Fair}}
	if owner == "" {
		owner = s.Holds.NewID()
	}
	return &script.AcquireArgs{
		Lock: lockOf(key), Mode: m, Turn: s.Waits.Entry(m), TurnEvent: wait.TurnEvent(lockOf(key), m),
		Grant: script.GrantTerms{
			Owner: owner, Carrier: c.carrier.Name, Request: c.carrier.Requests.Add(1), TTL: time.Minute,
			Options: terms.OptionLetters(), Ext: terms.Ext(), Client: c.carrier.Client().Name,
		},
	}
}

// fairWaiter is the acquire of a FAIR waiter.
func (c *conn) fairWaiter(key, owner string) *script.AcquireArgs {
	args := c.acquireOf(script.Fair, key, owner)
	args.FairFor = c.carrier.service.Waits.FairTimeout
	return args
}

// send sends an acquire. Nobody concludes it.
func (c *conn) send(args *script.AcquireArgs) script.AcquireResult {
	c.t.Helper()
	s := c.carrier.service
	r, _, err := s.Redis.Acquire(&script.Acquisition{}, args, s.deadline())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// holdAs makes a hold of the connection, with a new owner if the grant has none.
func (c *Carrier) holdAs(t testing.TB, g hold.Grant, until time.Time) *hold.Hold {
	t.Helper()
	if g.Owner == "" {
		g.Number = c.service.Holds.NewOwners(1)
	}
	h := hold.New(&c.Carrier.Carrier, &g)
	if !c.Attach(t.Context(), []*hold.Hold{h}, "", []time.Time{until}) {
		t.Fatal("it is not held")
	}
	return h
}
