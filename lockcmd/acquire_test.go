package lockcmd_test

import (
	"testing"

	"leash/lockcmd"
	"leash/lockcmd/acquire"
	"leash/proxy/resp"
)

// TestFailureText: A refusal of Leash is the reply as it is, whatever the key is. An error of Redis
// loses what Redis adds about the script.
func TestFailureText(t *testing.T) {
	for text, err := range map[string]error{
		"LOCKLOST a script: b gone":           acquire.Loss("a script: b", "gone"),
		"NOREPLICAS Not enough good replicas": resp.ReplyError("NOREPLICAS Not enough good replicas"),
		"ERR no":                              resp.ReplyError("ERR no script: 1234, on @user_script:1."),
	} {
		if got := lockcmd.FailureText(err); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}
