package lockcmd

// naming is what a hold is called by in Redis: its key and its owner's name. Both are in one
// string, with one header.
type naming struct {
	text string // the key, and behind it the owner's name as the client gave it
	// above 0 that of an owner of its own, which has no such name; else, negated, the length of the
	// key
	number int64
}

// named is the naming of a hold of that owner.
func named(key, owner string) naming { return naming{key + owner, -int64(len(key))} }

// numbered is the naming of a hold whose owner is its own, the number-th of this Leash.
func numbered(key string, number int64) naming { return naming{key, number} }

func (n naming) key() string {
	if n.number > 0 {
		return n.text
	}
	return n.text[:-n.number]
}

// name is the owner's as the client gave it, "" for an owner of its own.
func (n naming) name() string {
	if n.number > 0 {
		return ""
	}
	return n.text[-n.number:]
}
