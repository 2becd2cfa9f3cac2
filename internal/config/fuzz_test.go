package config

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// FuzzFlagValue gives any text to each flag. A text that is accepted and written again reads the
// same. The error of a password does not repeat it.
func FuzzFlagValue(f *testing.F) {
	for _, text := range []string{
		"", "0", "-1", "10s", "1h0m1s", "1e3s", "9223372036854775807ns", "auto", "forever", "true", "T", "64kb", "1.5gb",
		"a,b", " a , b", ",", "cn", "10.0.0.1:6379", "unix:/run/x", "[::1]:1", "a b\tc", "\x00", "\u0661", "a\nb", "+5", "0x10",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, second := Default(), Default()
		again := groups(&second)
		for i, g := range groups(&first) {
			for j, o := range g.options {
				checkFlag(t, o, again[i].options[j].value, text)
			}
		}
	})
}

// checkFlag sets an option to a text, and again to what it then is.
func checkFlag(t *testing.T, o option, again value, text string) {
	t.Helper()
	err := o.value.Set(text)
	switch {
	case err != nil && o.value.hidden && len(text) > 8 && strings.Contains(err.Error(), text):
		t.Errorf("--%s: the error repeats the value: %v", o.name, err)
	case err != nil || o.value.hidden || o.value.String() == "":
		return
	}
	if err := again.Set(o.value.String()); err != nil || again.String() != o.value.String() {
		t.Errorf("--%s %q is written %q, which reads %q, %v", o.name, text, o.value, again, err)
	}
}

// secretMark begins each password of FuzzUpstreamURL. Nothing else contains it.
const secretMark = "pass5word"

// FuzzUpstreamURL compares URLs with what go-redis makes of them. Errors never contain the
// password.
func FuzzUpstreamURL(f *testing.F) {
	f.Add(false, "user", "x", "localhost", ":6379", "")
	f.Add(true, "", "a%b@c:d/e?f#g", "[::1]", ":1", "/0")
	f.Add(true, "a b", "%zz\n", "example.com", "", "/")
	f.Add(false, "", "", "", "", "?protocol=3")
	f.Add(false, "u", "p", "h", ":x", "/1#x")
	f.Fuzz(func(t *testing.T, secure bool, user, password, host, port, rest string) {
		scheme := map[bool]string{false: "redis://", true: "rediss://"}[secure]
		info := url.UserPassword(user, secretMark+password).String()
		checkURL(t, scheme+strings.ReplaceAll(info, ",", "%2C")+"@"+host+port+rest)
		checkURL(t, scheme+secretMark+password+"@"+host+port+rest)
	})
}

// checkURL gives a URL to Leash and to go-redis.
func checkURL(t *testing.T, text string) {
	t.Helper()
	got, err := Parse([]string{"--upstream=" + text}, nil)
	_, errEnv := Parse(nil, []string{"LEASH_UPSTREAM=" + text})
	for _, err := range []error{err, errEnv} {
		if err != nil && strings.Contains(err.Error(), secretMark) {
			t.Errorf("%q: the error has the password: %v", text, err)
		}
	}
	var usage *UsageError
	if err != nil && !errors.As(err, &usage) || err == nil != (errEnv == nil) {
		t.Errorf("%q: %v as a flag, %v from the environment", text, err, errEnv)
	}
	if err != nil || strings.Contains(text, ",") {
		return
	}
	want, err := redis.ParseURL(strings.TrimSpace(text))
	if err != nil {
		t.Errorf("%q is refused by go-redis: %v", text, err)
		return
	}
	user, password := got.UpstreamUser, string(got.UpstreamPassword)
	if !reflect.DeepEqual(got.Upstream, []string{want.Addr}) || user != want.Username || password != want.Password ||
		got.UpstreamTLS != (want.TLSConfig != nil) {
		t.Errorf("%q: %q %q %q, go-redis %q %q %q", text, got.Upstream, user, password, want.Addr, want.Username, want.Password)
	}
}
