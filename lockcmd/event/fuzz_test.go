package event

import (
	"strings"
	"testing"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// FuzzParse checks that an event has the same text again, and that spaces belong to its key alone.
func FuzzParse(f *testing.F) {
	f.Add(Text(Moved, 17, "u:1.1", "order:42"))
	f.Add(Text(Watched, 1<<53, "", "a  b "))
	f.Add("turn -1 all ")
	f.Add("turn 01 x k")
	f.Add("released 9223372036854775808 u k")
	f.Add("  ")
	f.Fuzz(func(t *testing.T, text string) {
		e, ok := Parse(text)
		if !ok {
			return
		}
		if again, ok := Parse(Text(e.Kind, e.Token, e.Carrier, e.Key)); !ok || again != e {
			t.Errorf("%q: %+v, written again %+v, %v", text, e, again, ok)
		}
		if strings.Contains(e.Kind+e.Carrier, " ") || !strings.HasSuffix(text, " "+e.Key) {
			t.Errorf("%q: %+v", text, e)
		}
	})
}

// FuzzTombstone gives any text to the reader of tombstones. Only a text that begins with the whole
// word of an outcome has that outcome, so that a hold does not count as released by accident.
func FuzzTombstone(f *testing.F) {
	for _, text := range []string{
		Released, "released 3,4", Left, "moved u:1.1", "repeated u:2.1", Broken, Forced,
		"lost gone", "lost " + renewal.ReasonBroken, "extended 500", "extended x", "releasedx", " released", "",
		"Broken",
	} {
		f.Add(text)
	}
	outcomes := map[string]renewal.Outcome{Released: renewal.Released, Moved: renewal.Moved, Repeated: renewal.Repeated,
		Broken: renewal.Broken, Extended: renewal.Expired}
	f.Fuzz(func(t *testing.T, text string) {
		got := Outcome(nil, script.Ref{}, text, true, time.Time{})
		word := strings.SplitN(text, " ", 2)[0]
		want, known := outcomes[word]
		switch {
		case text == Lost+" "+renewal.ReasonBroken:
			want = renewal.Broken
		case !known:
			want = renewal.Gone
		}
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}
