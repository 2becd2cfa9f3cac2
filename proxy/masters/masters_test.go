package masters

import (
	"bytes"
	"strings"
	"testing"

	"leash/proxy/command"
)

// TestRefusal checks which arguments of CONFIG SET Leash refuses. One that is refused
// refuses the whole command.
func TestRefusal(t *testing.T) {
	table := command.New(nil)
	for text, want := range map[string]string{
		"CONFIG SET maxmemory 1":                  "",
		"CONFIG SET maxmemory 1 MaxClients 5":     "ERR CONFIG SET of 'maxclients' is refused by leash",
		"CONFIG SET timeout":                      "ERR CONFIG SET of 'timeout' is refused by leash",
		"CONFIG SET cluster-announce-tls-port 1":  "ERR CONFIG SET of 'cluster-announce-tls-port' is refused by leash",
		"CONFIG SET cluster-announc 1":            "",
		"CONFIG SET maxmemory-policy maxclients":  "", // a value
		"CONFIG SET tcp-keepalive-of-another 300": "",
		"CONFIG GET port":                         "",
	} {
		args := bytes.Fields([]byte(text))
		got := Refusal(table.Lookup(args), args)
		if refusal, _, _ := strings.Cut(got, ":"); refusal != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
