package script_test

import (
	"testing"

	"leash/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
