package scripts

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

func digest(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// TestScriptCacheIsBounded checks that the cache is bounded and keeps the scripts that were used
// last.
func TestScriptCacheIsBounded(t *testing.T) {
	var c cache
	keep := []byte("return 'kept'")
	c.add(keep)
	for i := range 3 * keptScripts {
		c.add(fmt.Append(nil, "return ", i))
		c.add(keep)
	}
	if c.recent.Len() != keptScripts || len(c.byText) != keptScripts || len(c.bySHA) != keptScripts {
		t.Errorf("%d scripts are kept, %d, %d", c.recent.Len(), len(c.byText), len(c.bySHA))
	}
	if text, ok := c.find(digest(keep)); !ok || text != string(keep) {
		t.Error("the script that was used all the time is gone")
	}
	for i := range 20 {
		c.add([]byte(strings.Repeat("-", maxScript-i)))
	}
	if c.size > keptScriptBytes || c.size == 0 {
		t.Errorf("%d bytes are kept", c.size)
	}
	c.add(make([]byte, maxScript+1))
	c.clear()
	if _, ok := c.find(digest(keep)); ok || c.size != 0 {
		t.Error("clear leaves some scripts")
	}
	if n := testing.AllocsPerRun(100, func() { c.add(keep) }); n != 0 {
		t.Errorf("%v allocations for a known script", n)
	}
}

// TestLoadedScriptsStay checks that scripts of EVAL do not displace a script of SCRIPT LOAD, and
// that both are found.
func TestLoadedScriptsStay(t *testing.T) {
	var s Seen
	loaded := []byte("return 'loaded'")
	s.loaded.add(loaded)
	for i := range 2 * keptScripts {
		s.run.add(fmt.Append(nil, "return ", i))
	}
	last := fmt.Append(nil, "return ", 2*keptScripts-1)
	for _, text := range [][]byte{loaded, last} {
		if got, ok := s.Find(digest(text)); !ok || got != string(text) {
			t.Errorf("%q: found %q, %v", text, got, ok)
		}
	}
	s.Clear()
	if _, ok := s.Find(digest(loaded)); ok {
		t.Error("a script is found after SCRIPT FLUSH")
	}
}

// TestKilledMerges checks what SCRIPT KILL answers for several masters.
func TestKilledMerges(t *testing.T) {
	const ok, busy, no, down = "+OK\r\n", "-NOTBUSY x\r\n", "-UNKILLABLE x\r\n", "-UPSTREAMDOWN x\r\n"
	for _, tc := range []struct {
		replies []string
		want    string
	}{
		{[]string{busy, busy}, busy}, {[]string{busy, ok, busy}, ok}, {[]string{ok, no}, no}, {[]string{no, ok}, no},
		{[]string{busy, down, busy}, down}, {[]string{ok, down}, down}, {[]string{down, ok}, down},
		{[]string{down, busy}, down},
	} {
		var replies [][]byte
		for _, r := range tc.replies {
			replies = append(replies, []byte(r))
		}
		if got := string(killed(replies)); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.replies, got, tc.want)
		}
	}
}
