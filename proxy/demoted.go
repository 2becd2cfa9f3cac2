package proxy

// readOnly is a replica's answer to a command that writes. The command has not run.
const readOnly = "-READONLY You can't write against a read only replica.\r\n"

// demoted looks at an error reply of a single master that sentinels name. When
// the server has become a replica, the command goes to the master in its place,
// as soon as that is known and if the order of the session's commands allows
// it. A script's words are not believed: it may have written before.
func (p *part) demoted(b []byte) bool {
	up := p.call.session.server.up
	if up.Mode() != "sentinel" || string(b) != readOnly || !p.trusted() {
		return false
	}
	up.Refresh()
	return p.retryLater()
}
