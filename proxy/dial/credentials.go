package dial

import "sync"

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
