package dial

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// ownPassword is what is known of the password of Leash's own user. Safe for concurrent use.
type ownPassword struct {
	mu       sync.Mutex      // never held while the password is read
	newest   string          // what Config.ReadPassword returned last
	failing  bool            // the last reading failed
	number   atomic.Int64    // of newest; it rises with each new password
	inUse    int64           // number of the newest password that Redis has accepted
	refused  chan string     // size 1: a password that Redis has refused on an open connection
	refusers map[string]bool // addresses of nodes that refused the last login
}

// set notes a password. It reports whether it differs from the one before.
func (p *ownPassword) set(password string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.newest != password
	p.newest, p.failing = password, false
	if changed {
		p.number.Add(1)
	}
	return changed
}

func (p *ownPassword) password() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// read gets the password from a function that gets a refused one. If that fails, the last password
// stays, and err is set at the first failure in a row.
func (p *ownPassword) read(from func(refused string) (string, error), refused string) (newest string, changed bool,
	err error) {
	password, err := from(refused)
	if err == nil {
		return password, p.set(password), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing {
		err = nil
	}
	p.failing = true
	return p.newest, false, err
}

// accepted notes that Redis has accepted a password. It reports whether that is the first use of
// the newest one, which is not the one of the start.
func (p *ownPassword) accepted(password string) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := p.number.Load()
	if password != p.newest || p.inUse == number {
		return false
	}
	p.inUse = number
	return number > 1
}

// noteLogin notes whether a node has refused a password. It reports whether that is another answer
// of the node than before.
func (p *ownPassword) noteLogin(node string, refused bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.refusers[node] != refused
	switch {
	case changed && refused:
		if p.refusers == nil {
			p.refusers = make(map[string]bool)
		}
		p.refusers[node] = true
	case changed:
		delete(p.refusers, node)
	}
	return changed
}

// ReadPassword returns the password of Leash's own user as it is now, and lets later dials use it
// if it is new. If it cannot be read, the last one stays, and the log says so once. It blocks as
// long as Config.ReadPassword does. refused is a password that Redis has just refused, or empty.
func (d *Dialer) ReadPassword(refused string) string {
	if d.cfg.ReadPassword == nil {
		return d.cfg.Password
	}
	password, changed, err := d.own.read(d.cfg.ReadPassword, refused)
	if err != nil {
		d.log.Warn("cannot read the password of Leash's own user again: using the last one", "err", err)
	}
	if changed {
		d.setPassword(d.ServiceUser(), []byte(password))
	}
	return password
}

// ErrOwnPassword is for calls of Leash's own user while Redis refuses its password. A password that
// rotates is old for a moment, so this does not mean that the user was revoked: sessions and holds
// stay, and Leash dials again with the password that it reads then. A user that was deleted loses
// its connections and its locks, because Redis takes no more commands from it.
var ErrOwnPassword = &Refusal{"Redis refuses the password of Leash's own user"}

// IsOwn reports whether a user is Leash's own, with a password that Leash was given.
func (d *Dialer) IsOwn(user string) bool {
	return user == d.ServiceUser() && (d.cfg.User != "" || d.cfg.Password != "")
}

// noteAccepted logs the first use of a new password of Leash's own user.
func (d *Dialer) noteAccepted(password string) {
	if d.own.accepted(password) {
		d.log.Info("redis accepts the new password of Leash's own user", "user", d.ServiceUser())
	}
}

// noteOwnLogin counts an answer of a node to a login of Leash's own user. It logs the first of the
// node's refusals, and their end.
func (d *Dialer) noteOwnLogin(addr net.Addr, reply []byte) {
	node := addr.String()
	refused := refusesCredential(reply)
	if refused {
		d.loginsRefused.Add(1)
	}
	switch changed := d.own.noteLogin(node, refused); {
	case changed && refused:
		d.log.Warn("redis refuses the password of Leash's own user: trying again with the newest one",
			"node", node, "user", d.ServiceUser(), "err", strings.TrimSpace(string(reply[1:])))
	case changed:
		d.log.Info("redis accepts the password of Leash's own user again", "node", node, "user", d.ServiceUser())
	}
}
