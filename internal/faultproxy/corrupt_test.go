package faultproxy_test

import (
	"strings"
	"testing"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

func TestReplaceGivesAnotherReplyToItsCommandAlone(t *testing.T) {
	_, p := start(t)
	f := p.Replace(faultproxy.Named("GET"), ":424242\r\n")
	c := dial(t, p.Addr())
	if err := c.Send(redistest.Command("SET", "k", "v") + redistest.Command("GET", "k") + redistest.Command("GET", "k")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+OK\r\n", ":424242\r\n", "$1\r\nv\r\n"} {
		if got, err := c.Read(); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if f.Count() != 1 {
		t.Errorf("it triggered %d times, want once", f.Count())
	}
}

func TestCorruptReplacesEveryReplyUntilItEnds(t *testing.T) {
	_, p := start(t)
	for _, lies := range []bool{true, false} {
		p.Corrupt(1, lies)
		read := 0
		for range 40 {
			c := dial(t, p.Addr())
			c.Timeout = 100e6
			switch reply, err := c.Do("ECHO", "sound"); {
			case err == nil && strings.Contains(reply, "sound"):
				t.Errorf("got %q, which is not corrupted", reply)
			case err == nil && faultproxy.Replacement(reply):
				read++
			}
			c.Close()
		}
		if lies != (read > 0) {
			t.Errorf("lies %v: %d replies could be read as such", lies, read)
		}
	}
	if got := p.Stats().Corrupted; got != 80 {
		t.Errorf("%d replies counted, want 80", got)
	}
	p.Corrupt(0, false)
	if reply, err := dial(t, p.Addr()).Do("ECHO", "sound"); reply != "$5\r\nsound\r\n" || err != nil {
		t.Errorf("afterwards: got %q, %v", reply, err)
	}
}
