package command

import (
	"bytes"
	"strings"
)

// Redis's errors for clients and arguments that it does not accept.
const (
	NoAuth      = "NOAUTH Authentication required."
	NotInteger  = "ERR value is not an integer or out of range"
	SyntaxError = "ERR syntax error"
)

// MaxQuoted limits how much of a name or of arguments Redis repeats in an error, in bytes.
const MaxQuoted = 128

// WrongArity is Redis's error for a wrong number of arguments.
func WrongArity(c *Command) string {
	return "ERR wrong number of arguments for '" + c.Name + "' command"
}

// Unknown is Redis's error for a command that is in no table.
func Unknown(args [][]byte) string {
	b := append([]byte("ERR unknown command '"), Quoted(args[0], MaxQuoted)...)
	b = append(b, "', with args beginning with: "...)
	start := len(b)
	for _, a := range args[1:] {
		left := MaxQuoted - (len(b) - start)
		if left <= 0 {
			break
		}
		b = append(b, '\'')
		b = append(b, Quoted(a, left)...)
		b = append(b, "' "...)
	}
	return string(b)
}

// UnknownSub is Redis's error for a subcommand that is in no table.
func UnknownSub(c *Command, sub []byte) string {
	return "ERR unknown subcommand '" + string(Quoted(sub, MaxQuoted)) + "'. Try " + strings.ToUpper(c.Name) + " HELP."
}

// ExecRefused is the error for an EXEC that is refused for a reason.
func ExecRefused(reason string) string {
	return "EXECABORT Transaction discarded because of: " + reason
}

// Quoted returns an argument as C's printf shows it: up to a NUL, and at most limit bytes.
func Quoted(arg []byte, limit int) []byte {
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		arg = arg[:i]
	}
	return arg[:min(len(arg), limit)]
}
