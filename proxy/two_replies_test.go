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

// TestFunctionListWithLineBreak checks that Leash keeps back a FUNCTION LIST if Valkey would repeat
// its line break in the error. Redis 7 replaces the line break, and so does Leash.
func TestFunctionListWithLineBreak(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := proxytest.Start(t, []string{redis.Addr}).Dial(t)
	const forged = "x\r\n+forged"
	c.Want(t, "-ERR Unknown argument x  +forged\r\n", "FUNCTION", "LIST", forged)
	c.Want(t, "-ERR Unknown argument x  +forged\r\n", "function", "list", "libraryname", "libraryname", forged)
	c.Want(t, "-ERR Unknown argument x\r\n", "FUNCTION", "LIST", "WITHCODE", "x\x00\n")
	if stats := redis.Client().Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "function|list") {
		t.Errorf("Leash sent FUNCTION LIST to Redis: %s", stats)
	}
	c.Want(t, "*0\r\n", "FUNCTION", "LIST", "LIBRARYNAME", forged)
	c.Want(t, "-ERR Unknown argument x\r\n", "FUNCTION", "LIST", "x")
}

// TestTwoRepliesInTransaction checks that no transaction has a command with two replies.
func TestTwoRepliesInTransaction(t *testing.T) {
	t.Parallel()
	c := proxytest.Start(t, []string{redistest.Start(t).Addr}).Dial(t)
	for message, args := range map[string][]string{
		"must be exactly 16 hexadecimal characters": {"SET", "k", "v", "IFDEQ", "5", "GET"},
		"Unknown argument x +forged":                {"FUNCTION", "LIST", "x\n+forged"},
	} {
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "-ERR "+message+"\r\n", args...)
		c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	}
}
