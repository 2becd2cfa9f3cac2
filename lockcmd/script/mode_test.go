package script

import (
	"strings"
	"testing"
)

func TestScriptsHaveOnlyPartsTheyCall(t *testing.T) {
	if strings.Contains(AcquireScript.Source, "setPair") || !strings.Contains(PermitMoveScript.Source, "setPair") {
		t.Error("want setPair in the script that moves a permit, and not in the one that acquires a lock")
	}
}
