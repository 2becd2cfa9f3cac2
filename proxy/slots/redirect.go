package slots

import (
	"bytes"
	"strings"
)

// Redirect is the error by which a node of a cluster says that another one serves a slot.
type Redirect struct {
	Slot Slot
	Addr string // as Redis gives it; without a host, it means the host of the node that sent it
	Ask  bool   // ASK: for one command; otherwise MOVED
}

// ParseRedirect reads "-MOVED <slot> <host:port>\r\n" or "-ASK <slot> <host:port>\r\n". ok is false
// for other replies.
func ParseRedirect(reply []byte) (r Redirect, ok bool) {
	text, moved := strings.CutPrefix(string(reply), "-MOVED ")
	if !moved {
		if text, r.Ask = strings.CutPrefix(text, "-ASK "); !r.Ask {
			return Redirect{}, false
		}
	}
	fields := strings.SplitN(strings.TrimSpace(text), " ", 3) // later versions may add more words
	if len(fields) < 2 || fields[1] == "" {
		return Redirect{}, false
	}
	if r.Slot, ok = Parse(fields[0]); !ok {
		return Redirect{}, false
	}
	r.Addr = fields[1]
	return r, true
}

// IsRefusal reports whether the reply is an error by which a node refuses a command because of its
// slot. Another node may accept it, or the same one later.
func IsRefusal(reply []byte) bool {
	code, _, _ := bytes.Cut(reply, []byte(" "))
	switch string(code) {
	case "-MOVED", "-ASK", "-TRYAGAIN", "-CLUSTERDOWN":
		return true
	}
	return false
}
