package limits

import (
	"net"
	"sync"
	"time"
)

// Client is what one client counts at its user and at its address. Only one goroutine uses it. A
// nil *Client has no limits. A refusal is the error for the client; it is empty if there is none.
type Client struct {
	users, addresses *Users

	user     *User        // nil before Admit, or without limits of users
	address  *User        // nil before AdmitFrom, or without a limit of addresses
	commands int          // that may run before the user's bucket is asked again
	counted  [Kinds]int64 // by Recount
}

// NewClient makes what a new client counts. It is nil if neither users nor addresses have limits.
func NewClient(users, addresses *Users) *Client {
	if users == nil && addresses == nil {
		return nil
	}
	return &Client{users: users, addresses: addresses}
}

// AdmitFrom counts the client at its IP address. It returns false if that has too many clients.
func (c *Client) AdmitFrom(addr net.Addr) (ok bool) {
	tcp, isTCP := addr.(*net.TCPAddr)
	if c == nil || !isTCP {
		return true
	}
	c.address, ok = c.addresses.Enter(tcp.IP.String())
	return ok
}

// Admit counts the client at a user, and no more at the user before. If there is a refusal, nothing
// has changed.
func (c *Client) Admit(user string) (refusal string) {
	if user == "" {
		user = "default"
	}
	if c == nil || c.users == nil || c.user != nil && c.user.Name == user {
		return ""
	}
	next, ok := c.users.Enter(user)
	if !ok {
		return refusalOf(user, Clients)
	}
	for k, n := range c.counted {
		next.Add(Kind(k), n)
	}
	c.leaveUser()
	c.user, c.commands = next, 0
	return ""
}

func (c *Client) leaveUser() {
	for k, n := range c.counted {
		c.user.Add(Kind(k), -n)
	}
	c.user.Leave()
}

// Leave ends all that the client counts.
func (c *Client) Leave() {
	if c == nil {
		return
	}
	c.leaveUser()
	c.address.Leave()
	*c = Client{}
}

// Limits reports whether the user has a limit for a kind.
func (c *Client) Limits(k Kind) bool { return c != nil && c.user.Limits(k) }

// Recount tells the user that the client has another number of a kind now.
func (c *Client) Recount(k Kind, now int) {
	if c != nil {
		c.user.Add(k, int64(now)-c.counted[k])
		c.counted[k] = int64(now)
	}
}

// Room takes nothing. It refuses if the user may not have n more of a kind.
func (c *Client) Room(k Kind, n int) (refusal string) {
	if c == nil || c.user.HasRoom(k, int64(n)) {
		return ""
	}
	return refusalOf(c.user.Name, k)
}

// Take takes one of a kind. done gives it back. If there is a refusal, done is nil.
func (c *Client) Take(k Kind) (done func(), refusal string) {
	if !c.Limits(k) {
		return func() {}, ""
	}
	user := c.user
	if !user.Take(k, 1) {
		return nil, refusalOf(user.Name, k)
	}
	return sync.OnceFunc(func() { user.Add(k, -1) }), ""
}

// Pace allows one command. It may run after wait.
func (c *Client) Pace() (wait time.Duration, refusal string) {
	switch {
	case !c.Limits(Commands):
		return 0, ""
	case c.commands > 0:
		c.commands--
		return 0, ""
	}
	n, wait, ok := c.user.Pace(time.Now())
	if !ok {
		return 0, refusalOf(c.user.Name, Commands)
	}
	c.commands = n - 1
	return wait, ""
}

// refusalOf is the error for a user who has reached a limit.
func refusalOf(user string, k Kind) string {
	return "LIMIT user '" + user + "' has reached --limit-user " + k.String() + " on this Leash"
}
