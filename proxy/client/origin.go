package client

import (
	"net"

	"leash/proxy/origin"
)

// Balanced reports whether a balancer relays the client.
func (c *Conn) Balanced() bool { return c.balanced }

// ReadOrigin reads the PROXY protocol header of a balanced connection. All later bytes are the
// client's. It blocks.
func (c *Conn) ReadOrigin() error {
	from, err := origin.Read(c.Conn)
	if err == nil && from.Client != nil {
		c.from.Store(&from)
	}
	return err
}

// RemoteAddr is the client's address. If there is a header, the address is from the header.
func (c *Conn) RemoteAddr() net.Addr {
	if from := c.from.Load(); from != nil {
		return from.Client
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr is the address that the client connected to. It is Leash's or that of its balancer.
func (c *Conn) LocalAddr() net.Addr {
	if from := c.from.Load(); from != nil {
		return from.Server
	}
	return c.Conn.LocalAddr()
}
