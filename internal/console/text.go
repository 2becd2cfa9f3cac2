package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown is how many bytes of a name are shown. The rest is only counted.
const maxShown = 256

// shown is a name for people. Bytes that are no printable characters become escapes, as in \x00.
func shown(name string) string {
	rest := 0
	if len(name) > maxShown {
		cut := maxShown
		for cut > maxShown-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name, rest = name[:cut], len(name)-cut
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[i])
		case !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	if rest > 0 {
		fmt.Fprintf(&b, "… and %d bytes", rest)
	}
	return b.String()
}

// linkOf is the query that asks for a lock; empty if its key is too long for one. A key may be any
// bytes, so the page cannot make it from the name that is shown.
func linkOf(db int, key string) string {
	if len(key) > maxKey {
		return ""
	}
	return "key=" + url.QueryEscape(key) + "&db=" + strconv.Itoa(db)
}
