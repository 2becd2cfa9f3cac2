package command

import (
	"slices"

	"leash/lockcmd"
	"leash/proxy/resp"
)

// AllOwn describes all commands of Leash, in the order of LOCK.HELP.
var AllOwn = append(slices.Clone(lockcmd.Usage), admin)

// ownPrefixes are the prefixes of the names of Leash's own commands.
var ownPrefixes = [...]string{"LOCK.", "SEM.", "LATCH."}

// IsOwn reports whether a name has the prefix of Leash's own commands. There may be no such
// command.
func IsOwn(name []byte) bool {
	for _, prefix := range ownPrefixes {
		if len(name) > len(prefix) && resp.IsWord(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
