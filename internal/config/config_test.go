package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretStaysSecret(t *testing.T) {
	c := Default()
	c.UpstreamPassword = "hunter2"
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("start", "config", c, "password", c.UpstreamPassword)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "config", c, "password", c.UpstreamPassword)
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+"\n", c.UpstreamPassword)
	}
	fmt.Fprintf(&out, "%v %+v %#v", c, c, c)
	if s := out.String(); strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("the password shows in:\n%s", s)
	}
	if !strings.Contains(out.String(), "(hidden)") {
		t.Error("the output does not show that there is a password")
	}
	if got := Secret("").String(); got != "" {
		t.Errorf("no password: got %q, want nothing", got)
	}
}

func TestEmbedded(t *testing.T) {
	c := Default()
	if !c.Embedded() {
		t.Error("default: not embedded")
	}
	c.Upstream = []string{"a:1"}
	if c.Embedded() {
		t.Error("with an upstream: embedded")
	}
}

func TestVersion(t *testing.T) {
	if Version() == "" {
		t.Error("no version")
	}
	defer func(v string) { version = v }(version)
	version = "v1.2.3"
	if got := Version(); got != "v1.2.3" {
		t.Errorf("got %q, want the linker's version", got)
	}
}
