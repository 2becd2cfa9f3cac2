package slowlog

import (
	"fmt"

	"leash/proxy/resp"
)

// What is kept of a command, as in Redis.
const (
	maxArgs  = 32
	maxBytes = 128 // of an argument
)

// redacted stands for a secret, as in Redis.
const redacted = "(redacted)"

// Arguments returns what a log keeps of a command: the first arguments and the first bytes of each.
// Secrets are left out.
func Arguments(args [][]byte) []string { return kept(args, len(args)) }

// ArgumentsOf is Arguments for a command as it was sent, which is never inline. It reads only the
// arguments that are kept.
func ArgumentsOf(request []byte) []string {
	rest, n, ok := resp.CutHeader(request, "*")
	if !ok {
		return nil
	}
	args := make([][]byte, 0, min(n, maxArgs))
	for len(args) < cap(args) {
		text, size, ok := resp.CutHeader(rest, "$")
		if !ok || size > len(text)-2 {
			return nil
		}
		args, rest = append(args, text[:size]), text[size+2:]
	}
	return kept(args, n)
}

// kept is Arguments for a command with n arguments, of which args are the first ones.
func kept(args [][]byte, n int) []string {
	texts := make([]string, min(len(args), maxArgs))
	secret := secrets(args[:len(texts)])
	for i := range texts {
		switch arg := args[i]; {
		case i == maxArgs-1 && n > maxArgs:
			texts[i] = fmt.Sprintf("... (%d more arguments)", n-maxArgs+1)
		case secret[i]:
			texts[i] = redacted
		case len(arg) > maxBytes:
			texts[i] = fmt.Sprintf("%s... (%d more bytes)", arg[:maxBytes], len(arg)-maxBytes)
		default:
			texts[i] = string(arg)
		}
	}
	return texts
}

// secrets says which arguments may be passwords: those that Redis redacts, and the values of all
// settings.
func secrets(args [][]byte) (secret [maxArgs]bool) {
	if len(args) == 0 {
		return secret
	}
	is := func(i int, word string) bool { return i < len(args) && resp.IsWord(args[i], word) }
	hide := func(from, n int) {
		for i := from; i < min(from+n, len(args)); i++ {
			secret[i] = true
		}
	}
	switch {
	case is(0, "AUTH"):
		hide(1, maxArgs)
	case is(0, "ACL") && is(1, "SETUSER"):
		hide(2, maxArgs)
	case is(0, "CONFIG") && is(1, "SET"):
		for i := 3; i < len(args); i += 2 {
			hide(i, 1)
		}
	case is(0, "HELLO"):
		for i := 2; i < len(args); i++ {
			if is(i, "AUTH") {
				hide(i+1, 2)
			}
		}
	}
	return secret
}
