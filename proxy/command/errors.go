package command

import "bytes"

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
