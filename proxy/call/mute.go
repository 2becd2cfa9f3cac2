package call

// Mute leaves all later commands without replies, until Unmute. Messages of channels still arrive.
func (q *Queue) Mute() { q.off, q.Muted = true, true }

// Unmute turns replies on again, from the running command on.
func (q *Queue) Unmute() { q.off, q.Muted = false, false }

// UnmuteLater turns replies on again for later commands. It changes nothing for the running command
// if MuteOnce runs it.
func (q *Queue) UnmuteLater() { q.Muted, q.off = q.Muted && !q.off, false }

// MutedUntilUnmute reports whether Mute has been called, and Unmute not since.
func (q *Queue) MutedUntilUnmute() bool { return q.off }

// MuteOnce runs a command without a reply, and returns its result.
func (q *Queue) MuteOnce(run func() bool) bool {
	q.Muted = true
	ok := run()
	q.Muted = q.off
	return ok
}
