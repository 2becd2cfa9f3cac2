package event

import "testing"

// TestParseEvents: An event that is no event of Leash is refused. A key may have spaces.
func TestParseEvents(t *testing.T) {
	t.Parallel()
	text := Text(Released, 1795602064807307, "leash:1.1", "a key")
	want := Event{Kind: Released, Token: 1795602064807307, Carrier: "leash:1.1", Key: "a key"}
	if got, ok := Parse(text); !ok || got != want {
		t.Errorf("%q: got %v, %v", text, got, ok)
	}
	for _, text := range []string{"", "moved", "moved 1 c", "moved x c k", "moved 1.5 c k"} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
