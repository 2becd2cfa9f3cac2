package route

import (
	"leash/proxy/command"
	"leash/proxy/resp"
)

// digestLength is the length of a digest of a value, in hexadecimal digits (Redis 8.4 and later).
const digestLength = 16

// Set relays SET, except with GET and a digest of another length. Redis 8.6 gives two replies to
// that. On a shared link, the second one would be taken for the reply to another command. Leash
// answers with the text of the second one.
func (r *Router) Set(c *command.Command, cmd resp.Command) bool {
	if givesTwoReplies(cmd.Args) {
		return !r.Ready(c, cmd) || r.Fail("ERR must be exactly 16 hexadecimal characters")
	}
	return r.Relay(c, cmd)
}

// givesTwoReplies reports whether Redis gives two replies to a SET, see Set.
func givesTwoReplies(args [][]byte) bool {
	get, invalid := false, false
	for i := 3; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "GET"):
			get = true
		case resp.IsWord(args[i], "IFDEQ"), resp.IsWord(args[i], "IFDNE"):
			i++
			invalid = invalid || i < len(args) && len(args[i]) != digestLength
		case resp.IsWord(args[i], "IFEQ"), resp.IsWord(args[i], "IFNE"):
			i++ // a value, which may look like an option
		}
	}
	return get && invalid
}
