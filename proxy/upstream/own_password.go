package upstream

import (
	"context"
	"sync"
)

// ownPassword is the newest password of Leash's own user that Config.ReadPassword returned. Safe
// for concurrent use.
type ownPassword struct {
	mu      sync.Mutex // never held while the password is read
	newest  string
	failing bool // the last reading failed
}

// set notes a password. It reports whether it differs from the one before.
func (p *ownPassword) set(password string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.newest != password
	p.newest, p.failing = password, false
	return changed
}

// fail notes that a reading failed. It returns the newest password and whether this is the first
// failure in a row.
func (p *ownPassword) fail() (newest string, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = !p.failing
	p.failing = true
	return p.newest, first
}

// readPassword returns the password of Leash's own user as it is now, and lets later dials use it
// if it is new. If it cannot be read, the last one stays, and the log says so once. It blocks as
// long as Config.ReadPassword does.
func (u *Upstream) readPassword() string {
	if u.cfg.ReadPassword == nil {
		return u.cfg.Password
	}
	password, err := u.cfg.ReadPassword()
	if err != nil {
		newest, first := u.own.fail()
		if first {
			u.log.Warn("cannot read the password file again: using the last password", "err", err)
		}
		return newest
	}
	if u.own.set(password) {
		u.credentials.set(u.serviceUser(), []byte(password))
	}
	return password
}

// ownCredentials returns the name and the password for a connection of go-redis. The error is
// always nil.
func (u *Upstream) ownCredentials(context.Context) (user, password string, err error) {
	return u.cfg.User, u.readPassword(), nil
}
