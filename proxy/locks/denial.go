package locks

import (
	"errors"

	"leash/proxy/call"
	"leash/proxy/dial"
	"leash/proxy/rights"
	"leash/proxy/usage"
)

// denial returns the error for a user who may not use the keys as a lock does (rule R8). Redis
// cannot check that, because Leash's own user runs the lock scripts. It is empty when the user has
// the rights.
func (l *Client) denial(o *usage.Command, args [][]byte) string {
	if len(o.Use.Right) == 0 {
		return ""
	}
	keys, lane := o.KeysOf(args), l.Router.Lane
	if len(keys) == 0 && o.Keys != usage.NoKey {
		return "" // the arguments are wrong
	}
	if err := l.Router.Rights.Permit(l.Router.Context, lane, keys, o.Use.Right[0], o.Use.Right[1:]...); err != nil {
		return l.denialBy(o, err)
	}
	// Leash's own user sends the lock scripts, so Leash must look out for a deletion of this user.
	for _, key := range keys {
		l.Router.Rights.Watch(lane, key)
	}
	return ""
}

// denialBy returns the error for a right that is missing or cannot be checked.
func (l *Client) denialBy(o *usage.Command, err error) string {
	var denied *rights.Denied
	switch {
	case errors.As(err, &denied):
		return o.Denial(denied.Key)
	case errors.Is(err, dial.ErrRefused):
		// as Redis does with the connections of a deleted user
		l.RefuseLane(l.Router.Lane)
		return "NOPERM this user no longer exists"
	}
	l.Router.Rights.Warn(l.Router.Lane.User, err)
	if !errors.Is(err, rights.ErrNoCheck) {
		return call.NotSent(err)
	}
	return "NOPERM Leash cannot check the rights of this user: Leash's own user needs ACL DRYRUN, or this user EVAL"
}
