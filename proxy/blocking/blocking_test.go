package blocking

import (
	"bytes"
	"testing"
)

// TestParseStreamRead checks where the keys of XREAD and XREADGROUP begin, and whether they block.
func TestParseStreamRead(t *testing.T) {
	for text, want := range map[string]struct {
		streams int
		blocks  bool
	}{
		"XREAD STREAMS k 0":                                {2, false},
		"xread count 2 block 0 streams k 0":                {6, true},
		"XREADGROUP GROUP BLOCK STREAMS STREAMS k >":       {5, false},
		"XREADGROUP GROUP g c BLOCK 5 NOACK STREAMS k >":   {8, true},
		"XREAD COUNT BLOCK STREAMS k 0":                    {4, false},
		"XREAD BLOCK STREAMS k 0":                          {0, true}, // STREAMS is the time
		"XREAD STREAMS":                                    {2, false},
		"XREAD k 0":                                        {0, false},
		"XREADGROUP GROUP":                                 {0, false},
		"XREADGROUP GROUP g c NOACK COUNT 1 STREAMS a b 0": {8, false},
	} {
		streams, blocks := parseStreamRead(bytes.Fields([]byte(text)))
		if streams != want.streams || blocks != want.blocks {
			t.Errorf("%s: got %d, %v", text, streams, blocks)
		}
	}
}
