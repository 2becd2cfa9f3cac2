package login

import (
	"bytes"
	"testing"

	"leash/proxy/clients"
)

// TestParseHello checks the options of HELLO in each order, and Redis's errors for wrong ones.
func TestParseHello(t *testing.T) {
	for text, want := range map[string]struct {
		user, password, name string
		auth, named          bool
		problem              string
	}{
		"HELLO":                        {},
		"HELLO 3":                      {},
		"HELLO 3 auth u p":             {user: "u", password: "p", auth: true},
		"HELLO 2 SETNAME n AUTH u p":   {user: "u", password: "p", auth: true, name: "n", named: true},
		"HELLO 2 AUTH AUTH SETNAME":    {user: "AUTH", password: "SETNAME", auth: true},
		"HELLO 3 AUTH u":               {problem: "ERR Syntax error in HELLO option 'AUTH'"},
		"HELLO 3 SETNAME":              {problem: "ERR Syntax error in HELLO option 'SETNAME'"},
		"HELLO 3 SETNAME n other":      {name: "n", named: true, problem: "ERR Syntax error in HELLO option 'other'"},
		"HELLO 3 SETNAME n\x01 AUTH u": {name: "n\x01", named: true, problem: clients.BadName},
	} {
		o, problem := parseHello(bytes.Fields([]byte(text)))
		if string(o.user) != want.user || string(o.password) != want.password || string(o.name) != want.name ||
			o.auth != want.auth || o.named != want.named || problem != want.problem {
			t.Errorf("%q: got %+v, %q", text, o, problem)
		}
	}
}
