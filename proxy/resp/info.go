package resp

import "strings"

// InfoField reads a field of the text that INFO answers with, "" if it is missing.
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
