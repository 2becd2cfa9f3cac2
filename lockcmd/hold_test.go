package lockcmd

import (
	"reflect"
	"testing"
)

// TestR24AMillionHoldsFit: what a hold is made of is a whole size class of Go's, and there may be a million of it.
func TestR24AMillionHoldsFit(t *testing.T) {
	if size := reflect.TypeFor[hold]().Size(); size > 128 {
		t.Errorf("a hold takes %d bytes, want 128 at most: what only few have belongs into extra", size)
	}
}
