package pubsub

import "strings"

// keyspacePrefix begins the channels of keyspace events. A cluster node publishes such events only
// to its own subscribers. All other messages reach every node.
const keyspacePrefix = "__key"

func isKeyspace[T ~string | ~[]byte](channel T) bool {
	return len(channel) >= len(keyspacePrefix) && string(channel[:len(keyspacePrefix)]) == keyspacePrefix
}

// bringsKeyspace reports whether a subscription can bring keyspace events.
func bringsKeyspace(kind Kind, name string) bool {
	switch kind {
	case Channel:
		return isKeyspace(name)
	case Pattern:
		return matchesPrefix(name, keyspacePrefix)
	}
	return false
}

// Match reports whether a pattern of PSUBSCRIBE matches a channel, by the rules of Redis's
// stringmatchlen: * ? [a-z] [^a], and \ before any byte. Match backtracks only to the last star. So
// its time is at most proportional to the product of the lengths.
func Match(pattern, channel string) bool {
	if channel == "" {
		return pattern == "" // a star does not match it either
	}
	behindStar, from, star := "", "", false
	for {
		if pattern != "" && pattern[0] == '*' {
			pattern = strings.TrimLeft(pattern, "*")
			behindStar, from, star = pattern, channel, true
			if pattern == "" {
				return true
			}
			continue
		}
		if pattern == "" && channel == "" {
			return true
		}
		if pattern != "" && channel != "" {
			if rest, ok := matchOne(pattern, channel[0]); ok {
				pattern, channel = rest, channel[1:]
				continue
			}
		}
		if !star || from == "" {
			return false
		}
		from = from[1:]
		pattern, channel = behindStar, from
	}
}

// matchesPrefix reports whether a pattern can match a string that begins with prefix. If it is not
// certain, it returns true.
func matchesPrefix(pattern, prefix string) bool {
	for i := range len(prefix) {
		if pattern == "" {
			return false
		}
		if pattern[0] == '*' {
			return true
		}
		rest, ok := matchOne(pattern, prefix[i])
		if !ok {
			return false
		}
		pattern = rest
	}
	return true
}

// matchOne matches one byte with the first element of a pattern, which is not a star. rest is the
// pattern after the element.
func matchOne(pattern string, c byte) (rest string, ok bool) {
	switch pattern[0] {
	case '?':
		return pattern[1:], true
	case '[':
		return matchClass(pattern[1:], c)
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return pattern[1:], pattern[0] == c
}

// matchClass matches c with a class whose opening bracket has been read. A class that is not closed
// ends with the pattern.
func matchClass(class string, c byte) (rest string, ok bool) {
	not := class != "" && class[0] == '^'
	if not {
		class = class[1:]
	}
	found := false
	for {
		switch {
		case class == "":
			return "", found != not
		case class[0] == '\\' && len(class) >= 2:
			found = found || class[1] == c
			class = class[2:]
		case class[0] == ']':
			return class[1:], found != not
		case len(class) >= 3 && class[1] == '-':
			low, high := min(class[0], class[2]), max(class[0], class[2])
			found = found || low <= c && c <= high
			class = class[3:]
		default:
			found = found || class[0] == c
			class = class[1:]
		}
	}
}
