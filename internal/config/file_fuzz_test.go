package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// FuzzFile reads any file of settings, after a line with a password in some form. The error never
// contains the password. A text in the file means the same as that text after the flag.
func FuzzFile(f *testing.F) {
	for _, content := range []string{
		"", "# a comment", "max-clients = 20_000", "listen = ['127.0.0.1:1', '127.0.0.1:2']", "listen = []", "listen = [[1]]",
		"upstream-password = 'again'", "[upstream]\nuser = 'x'", "max-bulk = 0x400", "proxy-protocol = 'true'", "x = 1e400",
		"max-clients = nan", "drain-timeout = 1979-05-27", "upstream-user = \"\"\"\n", "\"\" = 1", "a.b = 1", "\xff",
		"log-level = \"\\u0000\"", "config = 'other.toml'", "listen = 1\nlisten = 2", "tls-cert = true",
	} {
		f.Add(content, uint8(0), uint8(0), "1")
	}
	for i := range uint8(4) {
		f.Add("max-clients = 'x'", i, 10*i, "10s")
	}
	path := filepath.Join(f.TempDir(), "leash.toml")
	f.Fuzz(func(t *testing.T, content string, form, option uint8, text string) {
		parseFile := func(content string) (Config, error) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			return Parse([]string{"--config", path}, nil)
		}
		_, err := parseFile(passwordLine(t, form, secretMark+text) + content)
		var usage *UsageError
		if err != nil && (!errors.As(err, &usage) || strings.Contains(err.Error(), secretMark)) {
			t.Errorf("%q: %v", content, err)
		}

		name := flagOf(option)
		line, err := toml.Marshal(map[string]string{name: text})
		if err != nil || text == "" || !utf8.ValidString(text) { // a file can't have these
			return
		}
		got, err := parseFile(string(line))
		want, errFlag := Parse([]string{"--" + name + "=" + text}, nil)
		got.File, got.FileIsPublic = want.File, want.FileIsPublic
		if (err == nil) != (errFlag == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v in the file, %+v %v as a flag", line, got, err, want, errFlag)
		}
	})
}

// passwordLine is a line with the password, in one of four forms.
func passwordLine(t *testing.T, form uint8, password string) string {
	value := []any{
		map[string]any{"upstream-password": password},
		map[string]any{"upstream-password": []string{password}},
		map[string]any{"upstream-password": 1, "sentinel-password": password},
		map[string]any{"upstream": "rediss://user:" + password + "@host:x"},
	}[form%4]
	line, err := toml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// flagOf is a flag that can be in a file.
func flagOf(option uint8) string {
	c := Default()
	var names []string
	for _, g := range groups(&c) {
		for _, o := range g.options {
			if o.name != "config" {
				names = append(names, o.name)
			}
		}
	}
	return names[int(option)%len(names)]
}
