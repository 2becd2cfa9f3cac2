package resp

import "bytes"

// IsWord reports whether an argument is an upper-case ASCII word. As in Redis, the argument may
// have lower-case letters.
func IsWord(arg []byte, word string) bool {
	return len(arg) == len(word) && bytes.EqualFold(arg, []byte(word))
}
