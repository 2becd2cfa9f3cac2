package lockcmd_test

import (
	"leash/lockcmd"
	"slices"
	"strings"
	"testing"
)

// TestUsageDescribesEachCommand checks that exactly the commands that exist are described.
func TestUsageDescribesEachCommand(t *testing.T) {
	var told []string
	for _, o := range lockcmd.Usage {
		if o.Name != "lock.help" && o.Name != "lock.list" { // answered by the session
			told = append(told, strings.ToUpper(o.Name))
		}
	}
	slices.Sort(told)
	if there := lockcmd.Commands(); !slices.Equal(told, there) {
		t.Errorf("described: %v, existing: %v", told, there)
	}
}
