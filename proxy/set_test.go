package proxy_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestSetWithInvalidDigest checks that Leash keeps back a SET to which Redis 8.6 gives two replies,
// and no other. Redis 7 refuses all of them as a syntax error.
func TestSetWithInvalidDigest(t *testing.T) {
	t.Parallel()
	const digest = "0123456789abcdef"
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c := l.Dial(t)
	for options, want := range map[string]string{
		"IFDEQ 5 GET":                     "must be exactly 16 hexadecimal characters",
		"get px 9 ifdne " + digest + "0":  "must be exactly 16 hexadecimal characters",
		"IFNE GET IFDEQ 5 GET":            "must be exactly 16 hexadecimal characters",
		"IFDEQ 5":                         "syntax error",
		"IFDEQ " + digest + " GET":        "syntax error",
		"IFEQ IFDEQ 5 GET":                "syntax error",
		"GET IFDEQ":                       "syntax error",
		"IFDEQ GET":                       "syntax error",
		"IFDEQ " + digest + " IFNE IFDNE": "syntax error",
	} {
		c.Want(t, "-ERR "+want+"\r\n", append([]string{"SET", "k", "GET"}, strings.Fields(options)...)...)
	}
}
