package command

// Redis's errors for arguments that it does not accept.
const (
	NotInteger  = "ERR value is not an integer or out of range"
	SyntaxError = "ERR syntax error"
)
