package lockcmd

// naming is the key and the owner of a hold. Both are in one string, which saves memory.
type naming struct {
	text string // the key, then the owner's name as the client gave it
	// number of a generated owner, above 0; otherwise the length of the key, negated
	number int64
}

// named is the naming of a hold with a named owner.
func named(key, owner string) naming { return naming{key + owner, -int64(len(key))} }

// numbered is the naming of a hold whose owner this Leash generated with that number.
func numbered(key string, number int64) naming { return naming{key, number} }

func (n naming) key() string {
	if n.number > 0 {
		return n.text
	}
	return n.text[:-n.number]
}

// name is the owner as the client gave it, "" for a generated owner.
func (n naming) name() string {
	if n.number > 0 {
		return ""
	}
	return n.text[-n.number:]
}
