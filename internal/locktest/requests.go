package locktest

import (
	"slices"
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// Last returns the connection's newest hold of any lock that match accepts.
func (c *Client) Last(match func(*hold.Hold) bool) *hold.Hold {
	for _, h := range slices.Backward(AllHolds(c.Service)) {
		if h.Carrier == &c.Carrier.Carrier.Carrier && h.State() != hold.Over && match(h) {
			return h
		}
	}
	return nil
}

// Oldest returns the connection's oldest hold.
func (c *Client) Oldest() *hold.Hold {
	all := AllHolds(c.Service)
	return all[slices.IndexFunc(all, func(h *hold.Hold) bool { return h.Carrier == &c.Carrier.Carrier.Carrier })]
}

// ReleaseOf is the release of a count by the owner "me", in the name of the connection.
func (c *Client) ReleaseOf(m *script.Mode, key string, token, number int64) *script.ReleaseArgs {
	ref := script.Ref{Lock: script.Lock{Key: key}, Token: token, Carrier: c.Carrier.Name}
	return &script.ReleaseArgs{End: script.EndArgs{Mode: m, Owner: "me", Hold: ref, Request: number}}
}

// AcquireOf is an acquire as the connection sends it to Redis, with the next number of the
// connection. Without an owner it gets a new one.
func (c *Client) AcquireOf(m *script.Mode, key, owner string) *script.AcquireArgs {
	s, terms := c.Service, script.Terms{Flags: script.Flags{Fair: m.Fair}}
	if owner == "" {
		owner = s.Holds.NewID()
	}
	return &script.AcquireArgs{
		Lock: LockOf(key), Mode: m, Turn: s.Waits.Entry(m), TurnEvent: wait.TurnEvent(LockOf(key), m),
		Grant: script.GrantTerms{
			Owner: owner, Carrier: c.Carrier.Name, Request: c.Carrier.Requests.Add(1), TTL: time.Minute,
			Options: terms.OptionLetters(), Ext: terms.Ext(), Client: c.Carrier.Client().Name,
		},
	}
}

// FairWaiter is the acquire of a FAIR waiter.
func (c *Client) FairWaiter(key, owner string) *script.AcquireArgs {
	args := c.AcquireOf(script.Fair, key, owner)
	args.FairFor = c.Service.Waits.FairTimeout
	return args
}

// Send sends an acquire. Nobody concludes it.
func (c *Client) Send(args *script.AcquireArgs) script.AcquireResult {
	c.T.Helper()
	s := c.Service
	r, _, err := s.Redis.Acquire(&script.Acquisition{}, args, s.Redis.Deadline())
	if err != nil {
		c.T.Fatal(err)
	}
	return r
}

// HoldAs makes a hold of the connection, with a new owner if the grant has none.
func (c *Client) HoldAs(t testing.TB, g hold.Grant, until time.Time) *hold.Hold {
	t.Helper()
	if g.Owner == "" {
		g.Number = c.Service.Holds.NewOwners(1)
	}
	h := hold.New(&c.Carrier.Carrier.Carrier, &g)
	if !c.Carrier.Attach(t.Context(), []*hold.Hold{h}, "", []time.Time{until}) {
		t.Fatal("it is not held")
	}
	return h
}
