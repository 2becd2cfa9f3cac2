package lockcmd

import (
	"context"

	"leash/lockcmd/release"
	"leash/lockcmd/script"
)

const breakName = "LOCK.BREAK"

// breakLock runs LOCK.BREAK.
func (c *Carrier) breakLock(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if msg := s.onlyKey(breakName, args); msg != "" {
		return appendError(dst, msg)
	}
	how, err := s.releaser.Break(c.id(string(args[1])), nil, s.deadline())
	if err != nil {
		return c.replyError(dst, err, msgBreakUnknown)
	}
	return appendInt(dst, int64(how))
}

// Break ends all holds of a lock against their owners' will, like LOCK.BREAK, if it has none but
// those with the confirmed tokens. A hold of Redisson has the token 0. It blocks until Redis has
// answered or Config.UpstreamTimeout is over. The error is release.ErrOtherHolder before anything
// was done, a *BadKeyError, or one of Redis; after an error of Redis the outcome is unknown. Safe
// for concurrent use.
func (s *Service) Break(db int, key string, confirmed []int64) (release.BreakOutcome, error) {
	if msg := s.keyError(key); msg != "" {
		return release.WasFree, &BadKeyError{msg}
	}
	return s.releaser.Break(script.Lock{DB: db, Key: key}, append([]int64{}, confirmed...), s.deadline())
}
