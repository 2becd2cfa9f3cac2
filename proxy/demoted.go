package proxy

// readOnly is a replica's answer to a command that writes. The command has not run.
const readOnly = "-READONLY You can't write against a read only replica.\r\n"

// demoted handles an error reply of a single master that sentinels name. If the server has become a
// replica, the command will be sent to the new master, and demoted returns true. It returns false
// if the order of the session's commands does not allow that. It also returns false for an error
// that a script can have made, because the script may have written before.
func (p *part) demoted(b []byte) bool {
	up := p.call.session.server.up
	if up.Mode() != "sentinel" || string(b) != readOnly || !p.trusted() {
		return false
	}
	up.Refresh()
	return p.retryLater()
}
