package resp

import "bytes"

// IsWord reports whether an argument is an upper-case ASCII word. As in Redis, the argument may
// have lower-case letters.
func IsWord(arg []byte, word string) bool {
	return len(arg) == len(word) && bytes.EqualFold(arg, []byte(word))
}

// maxWord limits the words of Leash's own commands, in bytes. None is longer.
const maxWord = 16

// Word returns an argument in upper case. What follows maxWord bytes is cut off. As in Redis, only
// letters of ASCII change.
func Word(arg []byte) string {
	var word [maxWord]byte
	n := copy(word[:], arg)
	for i, c := range word[:n] {
		if 'a' <= c && c <= 'z' {
			word[i] = c - ('a' - 'A')
		}
	}
	return string(word[:n])
}

// Code returns the first word of an error reply, without the '-'.
func Code(reply []byte) []byte {
	code, _, _ := bytes.Cut(bytes.TrimSpace(reply[1:]), []byte(" "))
	return code
}

// HasCode reports whether reply is an error whose first word is code.
func HasCode(reply []byte, code string) bool {
	return len(reply) > len(code)+1 && reply[0] == '-' && string(reply[1:len(code)+1]) == code &&
		(reply[len(code)+1] == ' ' || reply[len(code)+1] == '\r')
}
