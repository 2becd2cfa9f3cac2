package lockcmd

import (
	"context"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

const releaseName = "LOCK.RELEASE"

// release runs LOCK.RELEASE.
func (c *Carrier) release(_ context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(releaseName, args, releaseWords)
	if msg != "" {
		return appendError(dst, msg)
	}
	return c.unlock(dst, key, o)
}

// unlock releases the hold that the options mean, and answers.
func (c *Carrier) unlock(dst []byte, key string, o options) []byte {
	s, lock, until := c.service, c.id(key), c.service.deadline()
	code, lost, err := int64(script.NoSuchHold), "", error(nil)
	anywhere := o.Token != 0 || o.Owner != ""
	var h *hold.Hold
	if o.id == "" { // otherwise any connection that repeats the command must find the answer
		if h = c.ownHold(key, o); h == nil && anywhere {
			h = s.holds.Find(lock, o.Means)
		}
	}
	if h != nil {
		code, lost, err = s.releaser.Release(h, o.all, until)
	}
	// The event of a move may still be on its way.
	if anywhere && code == script.NoSuchHold && lost == "" && err == nil {
		code, err = s.releaser.ReleaseAnywhere(lock, o.Selector, o.id, o.all, until)
	}
	switch {
	case err != nil:
		return c.replyError(dst, err, msgReleaseLater)
	case lost != "":
		return appendError(dst, c.lossText(h, lost))
	case code == script.NoSuchHold:
		return appendError(dst, msgNotHeld)
	}
	return appendInt(dst, code)
}

// ownHold returns this connection's newest hold that the options mean.
func (c *Carrier) ownHold(key string, o options) *hold.Hold {
	return c.NewestReported(c.id(key), o.Means)
}
