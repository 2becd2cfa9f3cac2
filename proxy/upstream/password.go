package upstream

import "time"

// passwordPoll is the time between two looks at the password.
const passwordPoll = time.Second

// watchPassword reads the password again and again, until the Upstream ends, and sends a new one to
// open connections.
func (u *Upstream) watchPassword() {
	tick := time.NewTicker(passwordPoll)
	defer tick.Stop()
	for {
		refused := ""
		select {
		case <-u.Nodes.Context().Done():
			return
		case <-u.cfg.Reread:
		case refused = <-u.Dialer.RefusedPasswords():
		case <-tick.C:
		}
		u.Dialer.ReadPassword(refused)
		u.Nodes.LogInAgain()
	}
}
