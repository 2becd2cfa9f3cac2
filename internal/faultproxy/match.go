package faultproxy

import (
	"bytes"
	"slices"
	"strings"
)

// Named matches commands by name, in any case.
func Named(names ...string) Match {
	return func(request []byte) bool {
		args := Args(request)
		return len(args) > 0 && slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, string(args[0]))
		})
	}
}

// Holding matches commands that have each of args among their arguments, the name included, byte
// for byte.
func Holding(args ...string) Match {
	return func(request []byte) bool {
		have := Args(request)
		for _, arg := range args {
			if !slices.ContainsFunc(have, func(b []byte) bool { return string(b) == arg }) {
				return false
			}
		}
		return true
	}
}

// All matches a command if each of the matches does.
func All(matches ...Match) Match {
	return func(request []byte) bool {
		for _, m := range matches {
			if !m(request) {
				return false
			}
		}
		return true
	}
}

// Args returns the arguments of one whole command, its name first; they point into request. Of an
// inline command it returns the words between blanks, quotes and all.
func Args(request []byte) [][]byte {
	if len(request) == 0 || request[0] != '*' {
		return bytes.Fields(request)
	}
	_, rest, _ := bytes.Cut(request, crlf)
	var args [][]byte
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, crlf)
		n, err := number(line)
		if err != nil || n < 0 || n+2 > len(after) {
			return args
		}
		args = append(args, after[:n])
		rest = after[n+2:]
	}
	return args
}
