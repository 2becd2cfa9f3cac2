package hold

import "leash/lockcmd/script"

// Selector says which hold of a lock a command is about. A zero field allows any value.
type Selector struct {
	Token int64
	Owner string
	Mode  string // READ, WRITE or FAIR; "" for every mode of a lock
}

// PermitSelector is about one permit, or about any with "".
func PermitSelector(permit string) Selector {
	return Selector{Owner: permit, Mode: script.Permit.Option}
}

// Means reports whether h may be that hold. It does not block and takes no locks.
func (s Selector) Means(h *Hold) bool {
	return (s.Token == 0 || h.Token == s.Token) && (s.Owner == "" || h.IsOf(s.Owner)) && s.meansMode(h.Mode())
}

func (s Selector) meansMode(m *script.Mode) bool {
	return s.Mode == "" && m != script.Permit || s.Mode == m.Option
}

// Find returns the first hold of a lock in Redis that may be that hold.
func (s Selector) Find(info script.Inspection) (f script.Hold, ok bool) {
	for _, f := range info.Holds {
		if (s.Token == 0 || f.Record.Token == s.Token) && (s.Owner == "" || f.Owner == s.Owner) && s.meansMode(f.Mode) {
			return f, true
		}
	}
	return script.Hold{}, false
}

// EndedBefore reports whether the hold with the token ended before a present hold was granted. Then
// no new master can have forgotten it.
func (s Selector) EndedBefore(info script.Inspection) bool {
	return s.Token != 0 && info.EndedBefore(s.Token)
}
