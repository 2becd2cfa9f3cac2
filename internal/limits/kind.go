// Package limits counts what each user takes of a Leash, and says no beyond a limit.
//
//	Kind    what is counted: clients, waiters, commands a second …
//	Limits  the most of each kind that one user may have
//	Users   the users that have clients now
//	User    what one user has
//	Client  what one client counts at its user and at its address
//	Bucket  a rate: so many a second
//
// All users have the same limits. The package does no I/O and starts no goroutine. Users, User and
// Bucket are safe for concurrent use. A nil *Users and a nil *User have no limits, so a caller
// without limits pays for a comparison with nil.
package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a limit counts.
type Kind uint8

// The kinds.
const (
	Clients       Kind = iota // connections
	Blocked                   // commands that block in Redis, transactions and MONITOR
	Waiters                   // commands that wait for a lock, a permit or a latch
	Holds                     // locks and permits
	Subscriptions             // channels and patterns
	Commands                  // commands a second
	Output                    // bytes that Leash keeps for the connections
	Kinds                     // how many there are
)

// Names are the kinds in flags and metrics.
var Names = [Kinds]string{"clients", "blocked", "waiters", "holds", "subscriptions", "commands", "output"}

func (k Kind) String() string { return Names[k] }

// Limits are the most of each kind. Zero means no limit.
type Limits [Kinds]int64

const (
	most        = 1000000000 // the largest limit, but of Output
	leastOutput = 1 << 20    // bytes; Leash keeps that much for a client which reads
)

// Parse reads limits of the form "clients=100" and "output=64MiB". size reads a number of bytes.
// The error continues a sentence that begins with the text, as in `has an unknown kind "x"`.
func Parse(texts []string, size func(string) (int64, error)) (l Limits, err error) {
	for _, text := range texts {
		name, number, _ := strings.Cut(text, "=")
		k, ok := kindOf(name)
		if !ok {
			return l, fmt.Errorf("has an unknown kind %q: give %s", name, strings.Join(Names[:], ", "))
		}
		if k == Output {
			if l[k], err = size(number); err != nil || l[k] < leastOutput {
				return l, errors.New("has no size of 1MiB or more for output: write output=64MiB")
			}
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 || n > most {
			return l, fmt.Errorf("has no number from 1 to %d for %s: write %s=100", most, name, name)
		}
		l[k] = n
	}
	return l, nil
}

func kindOf(name string) (Kind, bool) {
	for k, known := range Names {
		if name == known {
			return Kind(k), true
		}
	}
	return 0, false
}
