package event

import (
	"testing"

	"leash/lockcmd/script"
)

func endOf(token int64, text string) End {
	return End{Hold: script.Ref{Lock: script.Lock{Key: "k"}, Token: token, Carrier: "leash:1.1"}, Text: text}
}

// TestEndsKeepTheLastOnes: The newest end of a hold is found, until too many others came.
func TestEndsKeepTheLastOnes(t *testing.T) {
	t.Parallel()
	var l Ends
	if e, ok := l.Find(1, "leash:1.1"); ok {
		t.Errorf("before the first there is %v", e)
	}
	l.Add(endOf(1, Left))
	l.Add(endOf(1, Released))
	if e, ok := l.Find(1, "leash:1.1"); !ok || e.Text != Released {
		t.Errorf("got %v, %v, want the newest", e, ok)
	}
	if e, ok := l.Find(1, "leash:1.2"); ok {
		t.Errorf("another carrier has %v", e)
	}
	for i := range maxEnds - 1 {
		l.Add(endOf(int64(i+2), Released))
	}
	if _, ok := l.Find(1, "leash:1.1"); !ok {
		t.Error("the hold is dropped too soon")
	}
	l.Add(endOf(maxEnds+1, Lost))
	if e, ok := l.Find(1, "leash:1.1"); ok || len(l.ends) != maxEnds {
		t.Errorf("%d ends are kept, with %v", len(l.ends), e)
	}
	if e, ok := l.Find(maxEnds+1, "leash:1.1"); !ok || e.Text != Lost {
		t.Errorf("the last one is %v, %v", e, ok)
	}
}
