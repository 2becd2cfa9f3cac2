package info

import (
	"bytes"
	"testing"
)

// fake is a Leash with two fields.
type fake struct{ Leash }

func (fake) Fields(line func(name string, value any)) {
	line("version", "1.2")
	line("sessions", 3)
}

// TestSections checks which sections come with Leash's own, and which only with numbers of keys.
func TestSections(t *testing.T) {
	for text, want := range map[string]struct{ leash, keyspace bool }{
		"":                {true, false},
		"Everything":      {true, false},
		"server DEFAULT":  {true, false},
		"server leash":    {true, false},
		"server":          {false, false},
		"keyspace":        {false, true},
		"keyspace server": {false, false},
	} {
		sections := bytes.Fields([]byte(text))
		got := struct{ leash, keyspace bool }{wantsLeash(sections), onlyKeyspace(sections)}
		if got != want {
			t.Errorf("%q: got %+v", text, got)
		}
	}
	if got, want := string(section(fake{})), "# Leash\r\nleash_version:1.2\r\nleash_sessions:3\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
