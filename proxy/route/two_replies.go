package route

import (
	"bytes"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// digestLength is the length of a digest of a value, in hexadecimal digits (Redis 8.4 and later).
const digestLength = 16

// RelayIfOneReply relays a command to which some servers give two replies. On a shared link, the
// second one would be taken for the reply to another command. So Leash gives the error itself.
func (r *Router) RelayIfOneReply(c *command.Command, cmd resp.Command) bool {
	if message := TwoReplies(c, cmd.Args); message != "" {
		return !r.Ready(c, cmd) || r.Fail(message)
	}
	return r.Relay(c, cmd)
}

// TwoReplies returns the error in a command to which some servers give two replies. It is empty for
// all other commands.
func TwoReplies(c *command.Command, args [][]byte) (message string) {
	switch c.Name {
	case "set":
		return invalidDigest(args)
	case "function|list":
		return brokenArgument(args)
	}
	return ""
}

// invalidDigest is for SET with GET and a digest of another length. Redis 8.6 gives the value, and
// then an error.
func invalidDigest(args [][]byte) string {
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
	if !get || !invalid {
		return ""
	}
	return "ERR must be exactly 16 hexadecimal characters"
}

// brokenArgument is for FUNCTION LIST with a line break in an option. Valkey 8 and 9 repeat it
// unchanged in the error. So the client could choose what seems to be the next reply.
func brokenArgument(args [][]byte) string {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "LIBRARYNAME"):
			i++ // a pattern, which no error repeats
		case bytes.ContainsAny(args[i], "\r\n"):
			return "ERR Unknown argument " + string(command.Quoted(args[i], len(args[i])))
		}
	}
	return ""
}
