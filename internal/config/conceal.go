package config

import (
	"slices"
	"strings"
)

// concealed are the flags whose values may be passwords, or URLs with passwords.
var concealed = []string{"upstream-password", "sentinel-password", "upstream"}

// Conceal moves passwords from the arguments to the environment, where other users of the machine
// cannot read them. args are without the program's name. Parse reads the same settings from the
// results. changed reports whether there was a password.
func Conceal(args, environ []string) (visible, hidden []string, changed bool) {
	values := make(map[string][]string)
	for i := 0; i < len(args); i++ {
		name, value, n := concealedFlag(args[i:])
		if n == 0 {
			visible = append(visible, args[i])
			continue
		}
		values[name] = append(values[name], value)
		changed = changed || name != "upstream" || mayBeURL(value)
		i += n - 1
	}
	if !changed || contradicts(values) {
		return args, environ, false
	}
	hidden = slices.Clone(environ)
	for name, all := range values {
		env := option{name: name}.env()
		hidden = slices.DeleteFunc(hidden, func(v string) bool { return strings.HasPrefix(v, env+"=") })
		if name != "upstream" {
			all = all[:1]
		}
		hidden = append(hidden, env+"="+strings.Join(all, ","))
	}
	return visible, hidden, true
}

// concealedFlag returns the flag at the beginning of args, if it is one of concealed, and how many
// arguments it takes. n is 0 for any other.
func concealedFlag(args []string) (name, value string, n int) {
	flag, ok := strings.CutPrefix(args[0], "--")
	if !ok {
		return "", "", 0
	}
	name, value, joined := strings.Cut(flag, "=")
	switch {
	case !slices.Contains(concealed, name):
	case joined && value != "":
		return name, value, 1
	case !joined && len(args) > 1 && args[1] != "":
		return name, args[1], 2
	}
	return "", "", 0
}

// contradicts reports whether a flag that allows one value has several. Parse says so.
func contradicts(values map[string][]string) bool {
	for name, all := range values {
		if name != "upstream" && len(slices.Compact(slices.Clone(all))) > 1 {
			return true
		}
	}
	return false
}
