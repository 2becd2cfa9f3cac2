package transport

import (
	"testing"
)

// TestScriptsHaveOnlyFunctionsTheyCall: a function stays if the script calls it, itself or through
// others. Every call of the script would pay for any other.
func TestScriptsHaveOnlyFunctionsTheyCall(t *testing.T) {
	t.Parallel()
	got := join([]string{
		"-- part.lua\nlocal A = 1\n\nlocal function inner() return A end\n" +
			"local function unused(x)\n  if x then return inner() end\nend\n",
		"local function outer(x)\n  local function own() return inner() end\n  -- why\n  return own()\nend\n" +
			"local function orphan() return unused() end\n",
		"return outer(KEYS[1])\n",
	})
	want := "local A = 1\nlocal function inner() return A end\n" +
		"local function outer(x)\nlocal function own() return inner() end\nreturn own()\nend\nreturn outer(KEYS[1])\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
