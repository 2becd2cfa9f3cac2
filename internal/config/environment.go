package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// envPrefix begins the names of Leash's environment variables.
const envPrefix = "LEASH_"

// serviceLink matches the rest of the variables that Kubernetes sets in every container for a
// Service whose name begins with "leash". They are not settings
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
var serviceLink = regexp.MustCompile(`^([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceAddress matches the value of a service link that has no number in its name: LEASH_PORT.
var serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// setFromEnv sets the options that no flag has set, from their environment variables, and adds
// their names to given. environ is a list of NAME=value. A variable that is not a setting is an
// error, because it may be a mistake such as LEASH_UPSTREAMS. An empty variable is an error,
// because it may come from a template that was not filled in.
func setFromEnv(gs []group, given map[string]bool, environ []string) (errs []error) {
	options := make(map[string]option)
	for _, g := range gs {
		for _, o := range g.options {
			options[o.env()] = o
		}
	}
	flags := maps.Clone(given)
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(variable, "=")
		if len(name) < len(envPrefix) || !strings.EqualFold(name[:len(envPrefix)], envPrefix) {
			continue
		}
		o, known := options[name]
		switch {
		case !known && isForeign(name, text):
		case !known:
			errs = append(errs, fmt.Errorf("%s is not a setting%s", name, suggest(name, keys(options))))
		case text == "":
			errs = append(errs, fmt.Errorf("%s is empty: give it a value, or do not set it", name))
		case flags[o.name]:
		default:
			given[o.name] = true
			if err := o.value.Set(text); err != nil {
				if mayBeURL(text) {
					text = "(hidden)"
				}
				errs = append(errs, fmt.Errorf("--%s (from %s) %q %w", o.name, name, text, err))
			}
		}
	}
	return errs
}

// isForeign reports whether a variable is not meant for Leash although its name has the prefix.
// LEASH_VERSION is left to deployments. LEASH_SERVER and LEASH_TOKEN belong to leash lock and the
// other commands of package cli.
func isForeign(name, text string) bool {
	rest := strings.TrimPrefix(name, envPrefix)
	if rest == "VERSION" || rest == "SERVER" || rest == "TOKEN" || serviceLink.MatchString(rest) {
		return true
	}
	return (rest == "PORT" || strings.HasSuffix(rest, "_PORT")) && serviceAddress.MatchString(text)
}

func keys(options map[string]option) (names []string) {
	for name := range options {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// suggest names the known name that is nearest to an unknown one, for the end of an error.
func suggest(unknown string, known []string) string {
	best, least := "", len(unknown)/3+1
	for _, name := range known {
		if d := distance(strings.ToUpper(unknown), strings.ToUpper(name)); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ": see --help"
	}
	return ": did you mean " + best + "?"
}

// distance is how many letters have to be added, removed or changed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}

// errEmpty says that the value of a setting is empty.
var errEmpty = errors.New("is empty: give a value, or leave the flag out")

// single makes an option refuse an empty value, and a second value that differs from the first. A
// list gets longer instead.
type single struct {
	value
	given bool
	first string
}

// Set implements pflag.Value.
func (s *single) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	if s.given && s.first != text && !s.value.grows {
		if s.value.hidden {
			return errors.New("is given twice with different values: give it once")
		}
		return fmt.Errorf("and %q are both given: give one of them", s.first)
	}
	s.given, s.first = true, text
	return s.value.Set(text)
}
